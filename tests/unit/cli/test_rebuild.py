"""`tiergate rebuild` on the real domain in this process: what it adds, binds and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate, hosting
from support.local_metadata import LocalMetadata
from support.planted_garbage import Plantation
from support.segments import make_metadata
from tiergate_client.errors import MetadataLogUnavailable
from tiergate_client.ids import LogId
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.store_marker import StoreMarkerV1, read_marker, rebind

LOST = StoreMarkerV1(LogId(b"o" * 16))


@pytest.fixture
def log_id(tiergate: InProcessTiergate) -> LogId:
    assert tiergate.info.log_id is not None
    return tiergate.info.log_id


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[LocalMetadata]:
    """The log that the store's segments were in."""
    log = MemoryEventLog()
    metadata = LocalMetadata(log)
    yield metadata
    metadata.close()
    log.close()


@pytest.fixture
def planted(lost: LocalMetadata, tmp_path: Path) -> Plantation:
    """Three segments, a tombstone and half a copy, in a store without a marker."""
    plantation = Plantation(FilesystemStore(tmp_path / "objects"), lost)
    for _ in range(3):
        plantation.live_segment()
    plantation.tombstone()
    plantation.orphan_half_copied()
    return plantation


@pytest.fixture
def rebuild(cli: Cli, tmp_path: Path) -> Cli:
    place = f"segments.store=file://{tmp_path / 'objects'}"
    return lambda *words: cli("rebuild", "--set", place, *words)


def contents(metadata: LocalMetadata, planted: Plantation) -> list[RemoteLogSegmentMetadata]:
    """Without what only the events of the time had."""
    listed = metadata.list_segments(planted.live[0].partition)
    return [replace(segment, event_timestamp_ms=0) for segment in listed]


def test_rebuild_adds_what_is_whole_and_says_what_it_cannot_tell(
    rebuild: Cli, tiergate: InProcessTiergate, lost: LocalMetadata, planted: Plantation, log_id: LogId
) -> None:
    result = rebuild()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "added 3 segments to the metadata log",
        "1 deleted segment left out",
        "1 unfinished upload left out",
    ]
    assert [line.split(":")[0] for line in lines[4:]] == [
        "- the order of history",
        "- deletions under way",
        "- copies under way",
        "- deletions of whole partitions",
    ]
    assert contents(tiergate.watched_metadata, planted) == contents(lost, planted)
    assert read_marker(planted.store) == StoreMarkerV1(log_id)


def test_rebuild_answers_in_json_and_changes_nothing_in_a_dry_run(
    rebuild: Cli, tiergate: InProcessTiergate, planted: Plantation, log_id: LogId
) -> None:
    result = rebuild("--dry-run", "-o", "json")
    assert result.exit_code == 0
    document = result.document
    assert len(document.pop("cannot_tell")) == 4
    assert document == {
        "dry_run": True,
        "log_id": str(log_id),
        "added_count": 3,
        "present_count": 0,
        "tombstone_count": 1,
        "unfinished_count": 1,
        "skipped": [],
    }
    assert list(tiergate.metadata.list_partitions()) == []
    assert read_marker(planted.store) is None


def test_rebuild_goes_on_after_it_was_cut_off(
    rebuild: Cli, tiergate: InProcessTiergate, planted: Plantation, log_id: LogId
) -> None:
    tiergate.watched_metadata.refuse_updates_with = MetadataLogUnavailable("the log is away; try again")
    result = rebuild()
    assert result.exit_code == 4
    assert "the same command goes on" in result.stderr
    assert read_marker(planted.store) == StoreMarkerV1(log_id, is_rebuilding=True)
    tiergate.watched_metadata.refuse_updates_with = None
    assert rebuild("-o", "json").document["added_count"] == 3
    assert read_marker(planted.store) == StoreMarkerV1(log_id)


def test_rebuild_passes_over_a_damaged_manifest_and_ends_with_1(
    rebuild: Cli, tiergate: InProcessTiergate, planted: Plantation, log_id: LogId
) -> None:
    key = SegmentKeys.of(planted.live[0]).manifest
    planted.store.delete(key)
    planted.store.put_if_absent(key, b"nonsense")
    result = rebuild()
    assert result.exit_code == 1
    assert result.stdout.startswith("added 2 segments")
    assert key in result.stderr
    assert sum(1 for _ in tiergate.metadata.list_segments(planted.live[0].partition)) == 2
    assert read_marker(planted.store) == StoreMarkerV1(log_id)


def test_rebuild_takes_the_store_of_another_log_only_when_told_to(
    rebuild: Cli, planted: Plantation, log_id: LogId
) -> None:
    rebind(planted.store, LOST)
    result = rebuild()
    assert result.exit_code == 5
    assert "if that one is gone for good, take the store over with --take-over" in result.stderr
    assert read_marker(planted.store) == LOST
    assert rebuild("--take-over").exit_code == 0
    assert read_marker(planted.store) == StoreMarkerV1(log_id)


@pytest.mark.parametrize("marker", [None, "bound", "rebuilding elsewhere"])
def test_rebuild_refuses_a_log_that_is_not_empty(
    rebuild: Cli, tiergate: InProcessTiergate, planted: Plantation, log_id: LogId, marker: str | None
) -> None:
    before = {
        None: None,
        "bound": StoreMarkerV1(log_id),
        "rebuilding elsewhere": replace(LOST, is_rebuilding=True),
    }[marker]
    if before is not None:
        rebind(planted.store, before)
    tiergate.metadata.add_segment(make_metadata())
    result = rebuild("--take-over")
    assert result.exit_code == 5
    assert "is not empty, and a rebuild would mix two histories" in result.stderr
    assert read_marker(planted.store) == before


def test_rebuild_refuses_a_replica_that_only_follows_or_knows_a_part(
    rebuild: Cli, tiergate: InProcessTiergate, planted: Plantation
) -> None:
    tiergate.info = replace(tiergate.info, features=("follow",))
    assert "only follows the log of another service" in rebuild().stderr
    tiergate.info = replace(tiergate.info, features=())
    tiergate.scripted_admin.assignment = hosting(0)
    assert "hosts 1 of 4 metadata partitions" in rebuild().stderr
    assert read_marker(planted.store) is None
