"""`ls`, `show`, `get` and `status`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate, hosting
from support.segments import make_metadata
from tiergate_client.errors import MetadataNotReady, NotAllowed, StoredDataCorrupt
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.interfaces import SegmentStream
from tiergate_server.kafka_files.sample import SamplePartition

UNKNOWN_ID = str(SegmentId(bytes(15) + b"\x01"))


def first_log(sample: SamplePartition) -> bytes:
    return min(sample.directory.glob("*.log")).read_bytes()


def test_ls_says_how_to_begin_when_there_is_nothing(cli: Cli) -> None:
    assert "tiergate put DIR" in cli("ls").stdout
    assert cli("ls", "-o", "json").document == {"partial": False, "partitions": []}


def test_ls_lists_partitions(cli: Cli, stored: list[str], sample: SamplePartition) -> None:
    (partition,) = cli("ls", "-o", "json").document["partitions"]
    assert partition["topic_id"] == str(sample.partition.topic_id)
    assert partition["finished_segment_count"] == len(stored)
    header, row = cli("ls").stdout.splitlines()
    assert header.split() == ["TOPIC", "PARTITION", "SEGMENTS", "OFFSETS", "SIZE", "TOPIC", "ID"]
    assert row.split()[:3] == ["orders", "0", "3"]


def test_ls_counts_unfinished_segments_apart(cli: Cli, stored: list[str], tiergate: InProcessTiergate) -> None:
    first = tiergate.metadata.get_segment(SegmentId.from_text(stored[0]))
    tiergate.metadata.add_segment(make_metadata(topic_id=first.partition.topic_id))
    assert "3 (+1)" in cli("ls").stdout


def test_ls_lists_the_segments_of_a_topic(cli: Cli, stored: list[str]) -> None:
    document = cli("ls", "orders", "-o", "json").document
    assert [segment["segment_id"] for segment in document["segments"]] == stored
    lines = cli("ls", "orders").stdout.splitlines()
    assert [line.split()[-1] for line in lines[1:-1]] == stored
    assert lines[-1].startswith("3 segments")
    assert {segment["store"] for segment in document["segments"]} == {"default"}


def test_ls_leaves_out_columns_that_do_not_fit_but_never_the_id(
    cli: Cli, stored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("ls", "orders").stdout.splitlines()
    assert "NEWEST RECORD" not in lines[0]
    assert [line.split()[-1] for line in lines[1:-1]] == stored
    assert max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "120")
    assert "NEWEST RECORD" in cli("ls", "orders").stdout


def test_ls_lists_one_partition(cli: Cli, tiergate: InProcessTiergate) -> None:
    topic_id = TopicId.random()
    for partition in (0, 1):
        tiergate.metadata.add_segment(make_metadata(topic_id=topic_id, partition=partition))
    segments = cli("ls", "orders", "-p", "1", "-o", "json").document["segments"]
    assert [segment["partition"] for segment in segments] == [1]
    assert len(cli("ls", "orders", "-o", "json").document["segments"]) == 2
    result = cli("ls", "orders", "-p", "7")
    assert (result.exit_code, result.stderr) == (
        3,
        "tiergate: nothing is known of partition 7 of orders, only of 0, 1\n",
    )


def test_ls_folds_a_long_topic_and_nothing_else_when_the_terminal_is_narrow(
    cli: Cli, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "t" * 120
    tiergate.metadata.add_segment(make_metadata(topic=topic, partition=1234567))
    monkeypatch.setenv("COLUMNS", "80")
    header, *rows = cli("ls").stdout.splitlines()
    assert header.split() == ["TOPIC", "PARTITION", "SEGMENTS", "OFFSETS", "SIZE"]
    assert rows[0].split()[1:4] == ["1234567", "0", "(+1)"]
    assert "".join(row.split()[0] for row in rows) == topic
    assert max(map(len, rows)) <= 80


def test_ls_shows_topic_ids_in_narrow_terminals_only_when_names_are_not_unique(
    cli: Cli, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ids = [TopicId.random(), TopicId.random()]
    tiergate.metadata.add_segment(make_metadata(topic_id=ids[0]))
    assert "TOPIC ID" not in cli("ls").stdout
    tiergate.metadata.add_segment(make_metadata(topic_id=ids[1]))
    listed = cli("ls").stdout
    assert all(str(topic_id) in listed for topic_id in ids)


def test_ls_needs_no_id_when_only_one_of_the_topics_has_the_partition(cli: Cli, tiergate: InProcessTiergate) -> None:
    ids = [TopicId.random(), TopicId.random()]
    for partition, topic_id in enumerate(ids):
        tiergate.metadata.add_segment(make_metadata(topic_id=topic_id, partition=partition))
    (segment,) = cli("ls", "orders", "-p", "1", "-o", "json").document["segments"]
    assert segment["topic_id"] == str(ids[1])
    assert cli("ls", "orders").exit_code == 2


@pytest.mark.parametrize("arguments", [[], ["orders"]])
def test_ls_says_that_the_list_is_partial_when_the_replica_has_only_some_metadata(
    cli: Cli, tiergate: InProcessTiergate, stored: list[str], arguments: list[str]
) -> None:
    assert stored
    whole = cli("ls", *arguments, "-o", "json")
    assert (whole.document["partial"], whole.stderr) == (False, "")
    tiergate.scripted_admin.assignment = hosting(0, 1, 3)
    assert cli("ls", *arguments).stderr == "tiergate: partial: this replica hosts 3 of 4 metadata partitions\n"
    partial = cli("ls", *arguments, "-o", "json")
    assert partial.exit_code == 0
    assert partial.document["partial"] is True
    tiergate.scripted_admin.assignment = hosting(0, 1, 2, 3, corrupt_at={2: 5})
    assert cli("ls", *arguments).stderr == "tiergate: partial: this replica cannot read all of metadata partition 2\n"


def test_ls_does_not_say_how_to_begin_when_others_may_have_begun(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.scripted_admin.assignment = hosting(0)
    assert cli("ls").stdout == "No partitions here. Ask the other replicas.\n"


def test_ls_does_not_claim_to_be_whole_when_the_replica_does_not_tell(
    cli: Cli, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise NotAllowed("not for you")

    monkeypatch.setattr(type(tiergate.scripted_admin), "get_assignment", refuse)
    result = cli("ls", "-o", "json")
    assert (result.exit_code, result.document["partial"]) == (0, None)


def test_ls_names_both_ids_when_two_topics_have_the_name(cli: Cli, tiergate: InProcessTiergate) -> None:
    ids = [TopicId.random(), TopicId.random()]
    for topic_id in ids:
        tiergate.metadata.add_segment(make_metadata(topic_id=topic_id))
    result = cli("ls", "orders")
    assert result.exit_code == 2
    assert all(str(topic_id) in result.stderr for topic_id in ids)
    assert "--topic-id" in result.stderr
    (segment,) = cli("ls", "orders", "--topic-id", str(ids[1]), "-o", "json").document["segments"]
    assert segment["topic_id"] == str(ids[1])
    assert cli("ls", "orders", "--topic-id", str(TopicId.random())).exit_code == 3


def test_ls_fails_with_not_found_when_nobody_mentioned_the_topic(cli: Cli) -> None:
    result = cli("ls", "nothing", "-o", "json")
    assert result.exit_code == result.error["exit_code"] == 3
    assert result.error["reason"] == "TOPIC_NOT_FOUND"
    assert result.stdout == ""


def test_ls_refuses_a_partition_without_a_topic(cli: Cli) -> None:
    assert cli("ls", "-p", "1").exit_code == 2


def test_show_tells_metadata_and_files(cli: Cli, stored: list[str], sample: SamplePartition) -> None:
    document = cli("show", stored[0], "-o", "json").document
    log = first_log(sample)
    assert document["segment"]["state"] == "COPY_FINISHED"
    assert document["segment"]["segment_leader_epochs"] == [{"leader_epoch": 0, "start_offset": 0}]
    assert document["manifest"]["files"]["log"] == {"size_bytes": len(log), "crc32c": f"{crc32c(log):08x}"}
    human = cli("show", stored[0]).stdout
    assert f"{crc32c(log):08x}" in human
    assert "copy finished" in human


def test_show_says_so_when_nothing_is_stored(cli: Cli, tiergate: InProcessTiergate) -> None:
    announced = make_metadata()
    tiergate.metadata.add_segment(announced)
    assert cli("show", str(announced.segment_id), "-o", "json").document["manifest"] is None
    assert "Nothing is stored" in cli("show", str(announced.segment_id)).stdout


@pytest.mark.parametrize("command", [["show"], ["get", "-o", "unused"], ["rm", "--yes"]])
def test_unknown_segments_are_not_found_and_nonsense_is_wrong_usage(cli: Cli, command: list[str]) -> None:
    missing = cli(*command, UNKNOWN_ID)
    assert missing.exit_code == 3
    assert "tiergate ls TOPIC" in missing.stderr
    nonsense = cli(*command, "nonsense")
    assert nonsense.exit_code == 2
    assert nonsense.stderr.startswith("tiergate: 'nonsense' is not an id")


def test_get_writes_the_log(cli: Cli, stored: list[str], sample: SamplePartition, tmp_path: Path) -> None:
    target = tmp_path / "out.log"
    document = cli("get", stored[0], "-o", str(target), "--format", "json").document
    assert target.read_bytes() == first_log(sample)
    assert document["size_bytes"] == target.stat().st_size
    assert document["crc32c"] == f"{crc32c(target.read_bytes()):08x}"


def test_get_writes_a_part_of_the_log_to_stdout(cli: Cli, stored: list[str], sample: SamplePartition) -> None:
    result = cli("get", stored[0], "-o", "-", "--offset", "100", "--length", "50")
    assert result.stdout_bytes == first_log(sample)[100:150]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("what", "name"), [("offset-index", ".index"), ("time-index", ".timeindex"), ("leader-epoch", None)]
)
def test_get_writes_indexes(cli: Cli, stored: list[str], sample: SamplePartition, what: str, name: str | None) -> None:
    expected = min(sample.directory.glob(f"*{name}")).read_bytes() if name else b"0\n1\n0 0\n"
    assert cli("get", stored[0], "--what", what, "-o", "-").stdout_bytes == expected


def test_get_says_which_files_there_are_when_an_index_is_missing(cli: Cli, stored: list[str]) -> None:
    result = cli("get", stored[0], "--what", "txn-index", "-o", "-")
    assert result.exit_code == 3
    assert "`tiergate show SEGMENT` lists its files" in result.stderr


def test_get_leaves_what_was_there_when_it_fails(
    cli: Cli,
    stored: list[str],
    tiergate: InProcessTiergate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise StoredDataCorrupt("block 0 does not match")

    broken = SegmentStream(pieces(), lambda: None)
    monkeypatch.setattr(tiergate.watched_storage, "fetch_segment", lambda *_, **__: broken)
    target = tmp_path / "out.log"
    target.write_bytes(b"precious")
    result = cli("get", stored[0], "-o", str(target))
    assert result.exit_code == 6
    assert target.read_bytes() == b"precious"
    assert [path.name for path in tmp_path.iterdir() if "out.log" in path.name] == ["out.log"]


def test_get_writes_into_a_pipe_without_replacing_it(cli: Cli, stored: list[str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cli("get", stored[0], "--what", "leader-epoch", "-o", str(pipe)).exit_code == 0
        assert os.read(reader, 100) == b"0\n1\n0 0\n"
        assert pipe.is_fifo()
    finally:
        os.close(reader)


def test_get_fails_with_the_reason_when_it_cannot_write(cli: Cli, stored: list[str], tmp_path: Path) -> None:
    place = tmp_path / "missing" / "out.log"
    result = cli("get", stored[0], "-o", str(place))
    assert result.exit_code == 1
    assert result.stderr == f"tiergate: {place}: no such file or directory\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--what", "time-index", "--offset", "1", "-o", "x"],
        ["-o", "-", "--format", "json"],
        ["--offset", "-1", "-o", "x"],
        ["--length", "0", "-o", "x"],
        ["--offset", "99999999", "-o", "-"],
        [],
    ],
)
def test_get_is_refused_when_used_wrongly(cli: Cli, stored: list[str], arguments: list[str]) -> None:
    assert cli("get", stored[0], *arguments).exit_code == 2


def test_status_tells_both_planes_and_what_they_hold(cli: Cli, stored: list[str]) -> None:
    result = cli("status", "-o", "json")
    document = result.document
    assert result.exit_code == 0
    assert document["serving"] is True
    assert document["finished_segment_count"] == len(stored)
    assert document["planes"]["metadata"]["version"] == "9.9.9"
    assert document["planes"]["segments"]["address"] == "segments.test:7401"
    human = cli("status").stdout
    assert "1 partition, 3 segments" in human
    assert human.count("serving") == 2


def test_status_tells_what_a_plane_warns_of(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.info = replace(tiergate.info, warnings=("store default belongs to another metadata log",))
    assert "warning      store default belongs to another metadata log\n" in cli("status").stdout
    document = cli("status", "-o", "json").document
    assert document["planes"]["metadata"]["warnings"] == ["store default belongs to another metadata log"]


def test_status_fails_but_tells_the_rest_when_the_segment_plane_is_away(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.away = {"segments"}
    result = cli("status", "-o", "json")
    assert result.exit_code == 1
    assert result.document["planes"]["metadata"]["serving"] is True
    assert result.document["planes"]["segments"]["serving"] is False
    assert result.document["partition_count"] == 0


def test_status_fails_when_both_planes_are_away(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.away = {"metadata", "segments"}
    result = cli("status")
    assert result.exit_code == 1
    assert result.stdout.count("out of reach") == 2
    assert "make run" in result.stdout
    assert result.stderr == ""


def test_status_tells_why_the_metadata_is_not_ready_and_gives_no_advice_to_start_what_runs(
    cli: Cli, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_ready(**_: object) -> None:
        raise MetadataNotReady("the log is being read; try again, on any replica")

    monkeypatch.setattr(tiergate.watched_metadata, "list_partitions", not_ready)
    monkeypatch.setattr(tiergate, "health", lambda plane: plane == "segments")
    tiergate.info = replace(tiergate.info, ready=False)
    result = cli("status", "-o", "json")
    assert result.exit_code == 1
    assert result.document["planes"]["metadata"]["ready"] is False
    assert result.document["planes"]["metadata"]["trouble"] == "the log is being read; try again, on any replica"
    assert result.document["partition_count"] is None
    human = cli("status").stdout
    assert "metadata trouble  the log is being read" in human
    assert "make run" not in human


def test_status_fails_and_says_so_when_an_address_is_that_of_the_other_plane(
    cli: Cli, tiergate: InProcessTiergate
) -> None:
    tiergate.swapped = {"metadata"}
    result = cli("--target", "here:1", "status", "-o", "json")
    assert result.exit_code == 1
    assert result.document["serving"] is False
    trouble = result.document["planes"]["metadata"]["trouble"]
    assert trouble == "here:1 is a segment plane; --target wants the metadata plane"
    human = cli("status").stdout
    assert "wrong plane" in human
    assert "metadata in" not in human


@pytest.mark.parametrize("command", [["ls"], ["show", UNKNOWN_ID], ["metadata", "watch"], ["metadata", "assignment"]])
def test_commands_fail_as_wrong_usage_when_an_address_is_that_of_the_other_plane(
    cli: Cli, tiergate: InProcessTiergate, command: list[str]
) -> None:
    tiergate.swapped = {"metadata"}
    wrong_target = cli("--target", "here:1", *command)
    assert wrong_target.exit_code == 2
    assert wrong_target.stderr == "tiergate: here:1 is a segment plane; --target wants the metadata plane\n"
    tiergate.swapped = {"segments"}
    wrong_segments = cli("--segments", "there:2", *command)
    assert wrong_segments.exit_code == 2
    assert wrong_segments.stderr == "tiergate: there:2 is a metadata plane; --segments wants the segment plane\n"


def test_ls_does_without_the_segment_plane_that_was_named(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.away = {"segments"}
    assert cli("--segments", "there:2", "ls").exit_code == 0


def test_commands_name_the_plane_that_is_away(cli: Cli, tiergate: InProcessTiergate, stored: list[str]) -> None:
    tiergate.away = {"segments"}
    result = cli("show", stored[0])
    assert result.exit_code == 4
    assert result.stderr == (
        "tiergate: cannot reach the segment plane at segments.test:7401; "
        "start one with `make run` or name another with --segments\n"
    )
    tiergate.away = {"metadata", "segments"}
    assert cli("--target", "here:1", "ls").stderr == (
        "tiergate: cannot reach the metadata plane at here:1; start one with `make run` or name another with --target\n"
    )


def test_commands_say_to_wait_when_the_metadata_is_not_ready(
    cli: Cli, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_ready(**_: object) -> None:
        raise MetadataNotReady("the metadata plane has not caught up with its log yet")

    monkeypatch.setattr(tiergate.watched_metadata, "list_partitions", not_ready)
    result = cli("ls")
    assert result.exit_code == 4
    assert result.stderr.endswith("not caught up with its log yet; try again in a moment\n")
