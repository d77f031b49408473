"""`metadata dump`, of logs and of snapshot files."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.cli.conftest import Cli, Result

from support.segments import make_metadata
from tiergate_client.ids import LogId
from tiergate_client.values import (
    PartitionDeleteState,
    RemotePartitionDeleteMetadata,
    SegmentState,
)
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.metadata.event_codec import encode_event
from tiergate_server.metadata.snapshot import capture
from tiergate_server.metadata.snapshot_codec import SnapshotHeader, encode
from tiergate_server.metadata.state import MetadataState

SEGMENT = make_metadata(custom_metadata=b"\x00custom")
FINISH = SEGMENT.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1_700_000_001_000, custom_metadata=b"")
DELETE = RemotePartitionDeleteMetadata(SEGMENT.partition, PartitionDeleteState.DELETE_PARTITION_MARKED, 5, 2)
UNKNOWN = bytes.fromhex("010900")
CORRUPT = bytes.fromhex("010100ff")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedEventLog]:
    opened = EmbeddedEventLog(tmp_path / "metadata.db", partition_count=4)
    yield opened
    opened.close()


@pytest.fixture
def address(log: EmbeddedEventLog, tmp_path: Path) -> str:
    for event in (SEGMENT, FINISH, DELETE):
        log.publish(2, encode_event(event)).result()
    for value in (b"", UNKNOWN, CORRUPT):
        log.publish(1, value).result()
    return f"embedded:{tmp_path / 'metadata.db'}"


def documents(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_dump_prints_every_event_with_every_field_while_the_log_is_owned(cli: Cli, address: str) -> None:
    added, updated, deleted = documents(cli("metadata", "dump", "--log", address, "-p", "2", "-o", "json"))
    partition = {"topic": "orders", "topic_id": str(SEGMENT.partition.topic_id), "partition": 0}
    assert added == partition | {
        "metadata_partition": 2,
        "offset": 0,
        "kind": "RemoteLogSegmentMetadata",
        "segment_id": str(SEGMENT.segment_id),
        "state": "COPY_STARTED",
        "start_offset": 100,
        "end_offset": 199,
        "segment_size_bytes": 1000,
        "max_timestamp_ms": 1_600_000_000_000,
        "segment_leader_epochs": [
            {"leader_epoch": 0, "start_offset": 100},
            {"leader_epoch": 2, "start_offset": 150},
        ],
        "txn_index_empty": False,
        "broker_id": 1,
        "event_timestamp_ms": 1_700_000_000_000,
        "custom_metadata_base64": base64.b64encode(b"\x00custom").decode(),
    }
    assert updated == partition | {
        "metadata_partition": 2,
        "offset": 1,
        "kind": "RemoteLogSegmentMetadataUpdate",
        "segment_id": str(SEGMENT.segment_id),
        "state": "COPY_FINISHED",
        "broker_id": 1,
        "event_timestamp_ms": 1_700_000_001_000,
        "custom_metadata_base64": "",
    }
    assert deleted == partition | {
        "metadata_partition": 2,
        "offset": 2,
        "kind": "RemotePartitionDeleteMetadata",
        "state": "DELETE_PARTITION_MARKED",
        "broker_id": 2,
        "event_timestamp_ms": 5,
    }


def test_dump_prints_lines_like_kafkas_own_formatter(cli: Cli, address: str) -> None:
    lines = cli("metadata", "dump", "--log", address, "--partition", "2").stdout.splitlines()
    assert lines[0] == (
        f"partition: 2, offset: 0, value: RemoteLogSegmentMetadata{{{SEGMENT.partition}, segment {SEGMENT.segment_id}, "
        "COPY_STARTED, offsets 100-199, epochs 0@100 2@150, 1000 bytes, newest record 2020-09-13 12:26:40Z, "
        "transaction index possible, broker 1, at 2023-11-14 22:13:20Z, custom metadata 00637573746f6d}"
    )
    assert lines[1].endswith("COPY_FINISHED, broker 1, at 2023-11-14 22:13:21Z, custom metadata empty}")
    assert "RemotePartitionDeleteMetadata{orders-0 (" in lines[2]


def test_dump_shows_unknown_and_corrupt_records_as_such(cli: Cli, address: str) -> None:
    empty, unknown, corrupt = documents(cli("metadata", "dump", "--log", address, "-p", "1", "-o", "json"))
    assert (empty["kind"], empty["value_hex"]) == ("Unknown", "")
    assert (unknown["kind"], unknown["value_hex"]) == ("Unknown", UNKNOWN.hex())
    assert (corrupt["kind"], corrupt["value_hex"]) == ("Corrupt", CORRUPT.hex())
    human = cli("metadata", "dump", "--log", address, "-p", "1").stdout.splitlines()
    assert human[0].endswith("Unknown{the record is empty: no bytes}")
    assert human[2].startswith("partition: 1, offset: 2, value: Corrupt{")
    assert human[2].endswith(f": {CORRUPT.hex()}}}")


def test_dump_takes_partitions_and_a_first_offset(cli: Cli, address: str) -> None:
    everything = documents(cli("metadata", "dump", "--log", address, "-o", "json"))
    assert [(entry["metadata_partition"], entry["offset"]) for entry in everything] == [
        *((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2))
    ]
    later = documents(cli("metadata", "dump", "--log", address, "--from-offset", "2", "-o", "json"))
    assert [(entry["metadata_partition"], entry["offset"]) for entry in later] == [(1, 2), (2, 2)]
    assert documents(cli("metadata", "dump", "--log", address, "-p", "0", "-p", "3", "-o", "json")) == []


def test_dump_reads_the_servers_own_log_when_none_is_named(cli: Cli, address: str, tmp_path: Path) -> None:
    assert len(documents(cli("metadata", "dump", "--data-dir", str(tmp_path), "-o", "json"))) == 6
    assert len(documents(cli("metadata", "dump", "--set", f"metadata.log={address}", "-o", "json"))) == 6


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["--log", "embedded:/nowhere/metadata.db"], 1, "/nowhere/metadata.db does not exist"),
        (["--log", "memory:"], 1, "cannot be opened by another process"),
        (["--log", "nonsense"], 2, "nonsense"),
        (["--log", "kafka://"], 2, "kafka://"),
        (["--snapshot", "/nowhere"], 2, "/nowhere"),
    ],
)
def test_dump_fails_in_one_sentence_when_there_is_nothing_to_read(
    cli: Cli, arguments: list[str], exit_code: int, said: str
) -> None:
    result = cli("metadata", "dump", *arguments)
    assert result.exit_code == exit_code
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_dump_says_in_one_sentence_that_kafka_is_out_of_reach() -> None:
    words = ["metadata", "dump", "--log", "kafka://127.0.0.1:1/topic", "-o", "json"]
    ended = subprocess.run(
        [sys.executable, "-m", "tiergate_server", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 4
    (line,) = ended.stderr.splitlines()
    assert "127.0.0.1:1" in json.loads(line)["error"]["message"]


def test_dump_refuses_a_partition_that_the_log_does_not_have(cli: Cli, address: str) -> None:
    result = cli("metadata", "dump", "--log", address, "-p", "4")
    assert result.exit_code == 2
    assert "0 to 3" in result.stderr


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A finished segment, a partition whose deletion is marked, and one whose deletion is finished."""
    state = MetadataState()
    gone = make_metadata(topic="gone")
    for event in (
        SEGMENT,
        FINISH,
        DELETE,
        gone,
        RemotePartitionDeleteMetadata(gone.partition, PartitionDeleteState.DELETE_PARTITION_FINISHED),
    ):
        state.apply(event)
    header = SnapshotHeader(LogId.random(), 4, 0)
    path = tmp_path / "snapshot"
    path.write_bytes(b"".join(encode(header, [capture(2, applied=41, leader_epoch=6, state=state)])))
    return path


def test_dump_prints_what_is_in_a_snapshot(cli: Cli, snapshot: Path) -> None:
    entries = documents(cli("metadata", "dump", "--snapshot", str(snapshot), "-o", "json"))
    assert {(entry["metadata_partition"], entry["offset"]) for entry in entries} == {(2, 41)}
    by_kind = {entry["kind"]: entry for entry in entries}
    assert by_kind["DeletedPartition"]["topic"] == "gone"
    assert by_kind["RemotePartitionDeleteMetadata"]["state"] == "DELETE_PARTITION_MARKED"
    finished = replace(SEGMENT, state=SegmentState.COPY_FINISHED)
    assert by_kind["RemoteLogSegmentMetadata"]["state"] == finished.state.name
    assert by_kind["RemoteLogSegmentMetadata"]["custom_metadata_base64"] == ""
    epochs = {entry["leader_epoch"]: entry for entry in entries if entry["kind"] == "LeaderEpoch"}
    assert {number: epoch["highest_offset"] for number, epoch in epochs.items()} == {0: 149, 2: 199}
    assert epochs[2]["references"] == [{"offset": 150, "segment_id": str(SEGMENT.segment_id)}]
    human = cli("metadata", "dump", "--snapshot", str(snapshot)).stdout
    assert f"LeaderEpoch{{{SEGMENT.partition}, epoch 2, highest offset 199, 1 finished segment}}" in human
    assert documents(cli("metadata", "dump", "--snapshot", str(snapshot), "-p", "1", "-o", "json")) == []


def test_dump_says_when_a_snapshot_is_damaged(cli: Cli, snapshot: Path) -> None:
    content = bytearray(snapshot.read_bytes())
    content[60] ^= 1
    snapshot.write_bytes(content)
    result = cli("metadata", "dump", "--snapshot", str(snapshot))
    assert result.exit_code == 6
    assert "checksum" in result.stderr
    assert cli("metadata", "dump", "--snapshot", str(snapshot), "--log", "embedded:/x").exit_code == 2
