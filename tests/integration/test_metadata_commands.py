"""`tiergate metadata …` as a person types it, against real planes, real logs and a real broker."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from support.kafka_broker import KafkaBroker
from support.kafka_topics import KafkaTopics
from support.planes import PlaneProcess, running_planes
from support.waiting import wait_until
from tiergate_client import RemoteLogSegmentMetadata, SegmentState, Tiergate, TopicIdPartition, connect
from tiergate_client.errors import TiergateError
from tiergate_client.values import PartitionDeleteState, RemotePartitionDeleteMetadata
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.embedded_log_reader import EmbeddedLogReader
from tiergate_server.metadata.event_codec import MetadataEvent, encode_event
from tiergate_server.metadata.event_log import EventLogRefused
from tiergate_server.metadata.partitioner import metadata_partition

PROGRAM = [sys.executable, "-m", "tiergate_server"]


def tiergate_command(*words: str) -> str:
    ended = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def add_segment(tiergate: Tiergate, partition: TopicIdPartition, start: int) -> RemoteLogSegmentMetadata:
    segment = new_segment(partition, start, start + 9)
    tiergate.metadata.add_segment(segment)
    return segment


class RunningCommand:
    """A command that goes on; what it prints is kept as it comes."""

    def __init__(self, directory: Path, *words: str) -> None:
        self._files = [directory / name for name in ("command.out", "command.err")]
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process = subprocess.Popen([*PROGRAM, *words], stdout=out, stderr=err)

    def documents(self) -> list[dict[str, Any]]:
        text = self._files[0].read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def stderr(self) -> str:
        return self._files[1].read_text()


@contextmanager
def running_command(directory: Path, *words: str) -> Iterator[RunningCommand]:
    command = RunningCommand(directory, *words)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()


def test_dump_and_snapshot_show_what_a_running_plane_holds(tmp_path: Path) -> None:
    with running_planes(tmp_path) as planes, connect(planes.target) as tiergate:
        segment = add_segment(tiergate, new_partition("orders"), 0)
        (event,) = tiergate_command("metadata", "dump", "--data-dir", str(tmp_path), "-o", "json").splitlines()
        assert json.loads(event)["segment_id"] == str(segment.segment_id)
        taken = json.loads(tiergate_command("--target", planes.target, "metadata", "snapshot", "-o", "json"))
        (file,) = (path for path in (tmp_path / "snapshots").rglob("*") if path.is_file())
        assert file.stat().st_size == taken["size_bytes"]
        of_snapshot = tiergate_command("metadata", "dump", "--snapshot", str(file)).splitlines()
        assert any(f"segment {segment.segment_id}, COPY_STARTED" in line for line in of_snapshot)


def test_assignment_changes_what_a_running_plane_hosts_and_status_says_so(tmp_path: Path) -> None:
    with running_planes(tmp_path) as planes:
        shown = tiergate_command("--target", planes.target, "metadata", "assignment", "--set", "0-9,12")
        assert shown.splitlines()[-1] == "hosts 11 of 50 metadata partitions: 0-9,12"
        assert "11 of 50 metadata partitions: 0-9,12" in tiergate_command("--target", planes.target, "status")
        shown = tiergate_command("--target", planes.target, "metadata", "assignment", "--all")
        assert shown.splitlines()[-1] == "hosts 50 of 50 metadata partitions: 0-49"


def test_status_shows_a_corrupt_metadata_partition(tmp_path: Path) -> None:
    log = EmbeddedEventLog(tmp_path / "metadata.db")
    log.publish(3, b"nonsense").result()
    log.close()
    with running_planes(tmp_path) as planes:
        assert "metadata partition 3 from offset 0" in tiergate_command("--target", planes.target, "status")
        (line,) = tiergate_command("metadata", "dump", "--data-dir", str(tmp_path)).splitlines()
        assert line.startswith("partition: 3, offset: 0, value: Corrupt{")


def test_watch_prints_every_change_once_over_a_kill_of_the_plane_until_ctrl_c(tmp_path: Path) -> None:
    with (
        running_planes(tmp_path / "data") as planes,
        connect(planes.target) as tiergate,
        running_command(tmp_path, "--target", planes.target, "metadata", "watch", "orders", "-o", "json") as watch,
    ):
        partition, other = new_partition("orders"), new_partition("others")
        added = [add_segment(tiergate, partition, 0)]

        def is_watching() -> bool:
            added.append(add_segment(tiergate, partition, added[-1].end_offset + 1))
            return bool(watch.documents())

        wait_until(is_watching)
        planes.metadata.kill()
        wait_until(lambda: "does not answer" in watch.stderr)
        planes.metadata.start()
        add_segment(tiergate, other, 0)
        added += [add_segment(tiergate, partition, 10_000 + 10 * number) for number in range(5)]
        last = str(added[-1].segment_id)
        wait_until(lambda: watch.documents()[-1]["segment_id"] == last)
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(20) == 130
        printed = [document["segment_id"] for document in watch.documents()]
        ids = [str(segment.segment_id) for segment in added]
        assert printed == ids[ids.index(printed[0]) :]
        assert watch.stderr.count("does not answer") == 1


def history(event_count: int) -> list[MetadataEvent]:
    """Segments of many partitions in every state; some partitions are deleted, whole or half."""
    source = random.Random(4)
    partitions = [new_partition(f"topic-{number}") for number in range(30)]
    living: list[RemoteLogSegmentMetadata] = []
    events: list[MetadataEvent] = []
    steps = {
        SegmentState.COPY_STARTED: SegmentState.COPY_FINISHED,
        SegmentState.COPY_FINISHED: SegmentState.DELETE_STARTED,
        SegmentState.DELETE_STARTED: SegmentState.DELETE_FINISHED,
    }
    while len(events) < event_count:
        if not living or source.random() < 0.4:
            start = source.randrange(1000)
            segment = new_segment(source.choice(partitions), start, start + source.randrange(1, 30))
            living.append(segment)
            events.append(segment)
        else:
            place = source.randrange(len(living))
            update = living[place].step(steps[living[place].state], event_timestamp_ms=len(events))
            events.append(update)
            living[place] = living[place].updated_by(update)
            if update.state is SegmentState.DELETE_FINISHED:
                del living[place]
    for partition, state in zip(partitions[:2], PartitionDeleteState, strict=False):
        events += [RemotePartitionDeleteMetadata(partition, step) for step in PartitionDeleteState if step <= state]
    finished = partitions[2]
    events += [RemotePartitionDeleteMetadata(finished, step) for step in PartitionDeleteState]
    return events


def write_log(path: Path, events: Sequence[MetadataEvent], *, partition_count: int = 50) -> None:
    log = EmbeddedEventLog(path, partition_count=partition_count)
    pending = []
    for event in events:
        home = metadata_partition(event.partition, partition_count=partition_count)
        pending.append(log.publish(home, encode_event(event)))
        if len(pending) > 1000:
            pending.pop(0).result()
    log.close()


def stored_count(path: Path) -> int:
    with suppress(EventLogRefused):
        log = EmbeddedLogReader(path)
        try:
            return sum(log.end_offsets(range(log.partition_count)).values())
        finally:
            log.close()
    return 0


def all_answers(log: str, directory: Path, events: Sequence[MetadataEvent], **settings: str) -> dict[str, object]:
    """Every query about the history, from a plane that serves this log."""
    flags = {"metadata.listen": "127.0.0.1:0", "metadata.metrics": "", "metadata.log": log}
    plane = PlaneProcess(
        "metadata",
        data_directory=directory,
        settings=flags | {key.replace("__", "."): value for key, value in settings.items()},
    )
    plane.start()
    try:
        with connect(plane.address) as tiergate:
            return dict(_answers(tiergate, sorted({event.partition for event in events})))
    finally:
        plane.kill()


def _answers(tiergate: Tiergate, partitions: Sequence[TopicIdPartition]) -> Iterator[tuple[str, object]]:
    metadata = tiergate.metadata
    for summary in metadata.list_partitions():
        counts = (summary.segment_count, summary.finished_segment_count, summary.finished_size_bytes)
        yield f"summary {summary.partition}", (counts, summary.start_offset, summary.end_offset)
    for partition in partitions:
        yield f"segments {partition}", list(metadata.list_segments(partition))
        yield f"highest {partition}", metadata.highest_offset_for_epoch(partition, leader_epoch=0)
        yield f"size {partition}", metadata.log_size(partition, leader_epoch=0)
        for offset in range(0, 1100, 37):
            yield f"find {partition} {offset}", metadata.find_segment(partition, leader_epoch=0, offset=offset)
        try:
            metadata.put_partition_delete(
                RemotePartitionDeleteMetadata(partition, PartitionDeleteState.DELETE_PARTITION_FINISHED)
            )
        except TiergateError as refusal:  # tells how far its deletion is
            yield f"deletion {partition}", (type(refusal), refusal.details)


def test_copy_goes_on_after_kill_9_and_every_query_is_answered_alike(tmp_path: Path) -> None:
    events = history(20_000)
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    write_log(source, events)
    write_log(target, [], partition_count=7)
    words = ("metadata", "copy", "--from", f"embedded:{source}", "--to", f"embedded:{target}")
    for _ in range(3):
        before = stored_count(target)
        with running_command(tmp_path, *words) as copying:
            wait_until(lambda: stored_count(target) > before or copying.process.poll() is not None)  # noqa: B023
            copying.process.kill()
    cut_off = stored_count(target)
    assert 0 < cut_off < len(events)
    assert f"would copy {len(events) - cut_off} events" in tiergate_command(*words, "--dry-run")
    copied = tiergate_command(*words)
    assert copied == f"copied {len(events) - cut_off} events to embedded:{target}; {cut_off} were there already\n"
    expected = all_answers(f"embedded:{source}", tmp_path / "of-source", events)
    assert len(expected) > 30 * 30
    assert all_answers(f"embedded:{target}", tmp_path / "of-target", events) == expected


def test_copy_moves_an_embedded_log_to_kafka(tmp_path: Path, kafka: KafkaBroker) -> None:
    events = history(2000)
    write_log(tmp_path / "source.db", events)
    topic = KafkaTopics.unused_name()
    target = f"kafka://{kafka.bootstrap}/{topic}"
    settings = {"metadata.kafka.partitions": "5", "metadata.kafka.replication": "1"}
    flags = [f"--set={key}={value}" for key, value in settings.items()]
    words = ("metadata", "copy", "--from", f"embedded:{tmp_path / 'source.db'}", "--to", target, *flags)
    assert tiergate_command(*words) == f"copied {len(events)} events to {target}\n"
    assert f"; {len(events)} were there already" in tiergate_command(*words, "--dry-run")
    dumped = tiergate_command("metadata", "dump", "--log", target, "-o", "json", *flags).splitlines()
    assert len(dumped) == len(events)
    assert {json.loads(line)["metadata_partition"] for line in dumped} == set(range(5))
    expected = all_answers(f"embedded:{tmp_path / 'source.db'}", tmp_path / "of-source", events)
    on_kafka = all_answers(
        f"kafka://{kafka.bootstrap}",
        tmp_path / "of-kafka",
        events,
        metadata__kafka__topic=topic,
        metadata__kafka__partitions="5",
    )
    assert on_kafka == expected


@pytest.mark.parametrize("words", [["metadata", "snapshot"], ["metadata", "assignment"], ["metadata", "watch"]])
def test_commands_say_when_nobody_is_there(words: list[str]) -> None:
    ended = subprocess.run(
        [*PROGRAM, "--target", "127.0.0.1:1", "--timeout", "5", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 4
    assert ended.stderr.startswith("tiergate: cannot reach the metadata plane at 127.0.0.1:1")
    assert len(ended.stderr.splitlines()) == 1
