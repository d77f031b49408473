"""`metadata copy` between embedded logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.conftest import Cli

from support.segments import make_metadata
from tiergate_client.ids import LogId
from tiergate_client.values import SegmentState
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.embedded_log_reader import EmbeddedLogReader
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.metadata.event_codec import MetadataEvent, encode_event
from tiergate_server.metadata.log_scan import scan, spans_of
from tiergate_server.metadata.partitioner import metadata_partition
from tiergate_server.segments.store_marker import StoreMarkerV1, bind, read_marker, rebind

SEGMENT = make_metadata()
EVENTS: list[MetadataEvent] = [
    SEGMENT,
    SEGMENT.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1),
    *(make_metadata(topic=f"topic-{number}") for number in range(8)),
]


def write(path: Path, *extra: bytes, partition_count: int = 4) -> str:
    log = EmbeddedEventLog(path, partition_count=partition_count)
    for event in EVENTS:
        home = metadata_partition(event.partition, partition_count=partition_count)
        log.publish(home, encode_event(event)).result()
    for value in extra:
        log.publish(0, value).result()
    log.close()
    return f"embedded:{path}"


def values(path: Path) -> list[bytes]:
    log = EmbeddedLogReader(path)
    try:
        return [record.value for record in scan(log, spans_of(log))]
    finally:
        log.close()


def log_id_of(path: Path) -> LogId:
    log = EmbeddedLogReader(path)
    try:
        return log.log_id
    finally:
        log.close()


@pytest.fixture
def source(tmp_path: Path) -> str:
    return write(tmp_path / "source.db")


def test_copy_makes_the_target_and_says_how_much(cli: Cli, source: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "target.db"
    result = cli("metadata", "copy", "--from", source, "--to", f"embedded:{target}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"copied 10 events to embedded:{target}\n"
    assert sorted(values(target)) == sorted(map(encode_event, EVENTS))
    again = cli("metadata", "copy", "--from", source, "--to", f"embedded:{target}")
    assert again.stdout == f"copied 0 events to embedded:{target}; 10 were there already\n"


def test_copy_answers_in_json(cli: Cli, tmp_path: Path) -> None:
    source = write(tmp_path / "source.db", b"\x01\x09\x00")
    target = f"embedded:{tmp_path / 'target.db'}"
    assert cli("metadata", "copy", "--from", source, "--to", target, "-o", "json").document == {
        "dry_run": False,
        "from": source,
        "to": target,
        "event_count": 10,
        "copied_count": 10,
        "present_count": 0,
        "left_out_count": 1,
        "rebound_stores": [],
    }


def test_copy_rebinds_the_stores_that_belonged_to_the_source_and_no_others(
    cli: Cli, source: str, tmp_path: Path
) -> None:
    target = tmp_path / "target.db"
    place = tmp_path / "segments"
    words = (
        "metadata",
        "copy",
        "--from",
        source,
        "--to",
        f"embedded:{target}",
        "--set",
        f"segments.store=file://{place}",
    )
    assert cli(*words, "--dry-run").exit_code == 0
    assert not place.exists()
    store = FilesystemStore(place)
    bind(store, StoreMarkerV1(log_id_of(tmp_path / "source.db")))
    assert cli(*words, "--dry-run").stdout.endswith("target.db\n")
    assert read_marker(store) == StoreMarkerV1(log_id_of(tmp_path / "source.db"))
    assert cli(*words).stdout.endswith("; store default belongs to it now\n")
    assert read_marker(store) == StoreMarkerV1(log_id_of(target))
    other = StoreMarkerV1(LogId(b"o" * 16))
    rebind(store, other)
    assert cli(*words, "-o", "json").document["rebound_stores"] == []
    assert read_marker(store) == other


def test_copy_tries_everything_and_writes_nothing_in_a_dry_run(cli: Cli, source: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "target.db"
    result = cli("metadata", "copy", "--from", source, "--to", f"embedded:{target}", "--dry-run")
    assert result.stdout == f"would copy 10 events to embedded:{target}\n"
    assert not target.parent.exists()
    write(target, partition_count=7)
    owner = EmbeddedEventLog(tmp_path / "source.db")  # a plane may use it meanwhile
    result = cli("metadata", "copy", "--from", source, "--to", f"embedded:{target}", "--dry-run")
    owner.close()
    assert result.stdout == f"would copy 0 events to embedded:{target}; 10 were there already\n"


def test_copy_is_refused_when_the_target_holds_something_else(cli: Cli, source: str, tmp_path: Path) -> None:
    target = write(tmp_path / "target.db", encode_event(SEGMENT))
    before = values(tmp_path / "target.db")
    for dry_run in ([], ["--dry-run"]):
        result = cli("metadata", "copy", "--from", source, "--to", target, *dry_run)
        assert result.exit_code == 5
        assert "take an empty one" in result.stderr
    assert values(tmp_path / "target.db") == before


def test_copy_is_stopped_by_a_corrupt_event_until_it_is_skipped(cli: Cli, tmp_path: Path) -> None:
    source = write(tmp_path / "source.db", b"nonsense")
    words = ("metadata", "copy", "--from", source, "--to", f"embedded:{tmp_path / 'target.db'}")
    result = cli(*words)
    assert result.exit_code == 5
    place = result.stderr.partition("add ")[2].split()[0]
    assert values(tmp_path / "target.db") == []
    assert "; 1 of unknown kinds left out" in cli(*words, "--set", f"metadata.skip={place}").stdout


@pytest.mark.parametrize("owned", ["source.db", "target.db"])
def test_copy_is_refused_while_a_plane_uses_either_log(cli: Cli, source: str, tmp_path: Path, owned: str) -> None:
    owner = EmbeddedEventLog(tmp_path / owned)
    try:
        result = cli("metadata", "copy", "--from", source, "--to", f"embedded:{tmp_path / 'target.db'}")
    finally:
        owner.close()
    assert result.exit_code == 1
    assert f"{owned} is in use" in result.stderr


def test_copy_makes_nothing_when_the_source_does_not_exist(cli: Cli, tmp_path: Path) -> None:
    names = [f"embedded:{tmp_path / name}.db" for name in ("source", "target")]
    result = cli("metadata", "copy", "--from", names[0], "--to", names[1])
    assert result.exit_code == 1
    assert "source.db does not exist" in result.stderr
    assert list(tmp_path.glob("*.db*")) == []
    assert cli("metadata", "copy", "--from", names[0], "--to", names[0]).exit_code == 2
