"""Three replicas of the metadata plane on one real Kafka topic; the client hops between them on every call."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contract.remote_log_metadata_contract import RemoteLogMetadataContract, new_partition, new_segment

from support.kafka_broker import KafkaBroker, running_broker
from support.kafka_topics import KafkaTopics
from support.planes import PlaneProcess
from tiergate_client import RemoteLogSegmentMetadata, SegmentState, Tiergate, TopicIdPartition, connect
from tiergate_client.errors import (
    CommitStateUnknown,
    DeadlineExceeded,
    InvalidTransition,
    LogChanged,
    SegmentNotFound,
    Unavailable,
)
from tiergate_client.ids import SegmentId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import RemotePartitionDeleteMetadata
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.metadata.event_codec import decode_event
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.verdict import Applied

ROUNDS = int(os.environ.get("REPLICA_KILLS", "12"))
UNKNOWN_OUTCOMES = (Unavailable, CommitStateUnknown, DeadlineExceeded)
PARTITIONS = 4


class Replicas:
    """Metadata planes on one topic, each with a directory of its own."""

    def __init__(self, directory: Path, broker: KafkaBroker, *, topic: str, count: int = 3) -> None:
        settings = {
            "metadata.listen": "127.0.0.1:0",
            "metadata.metrics": "",
            "segments.metrics": "",
            "metadata.log": f"kafka://{broker.bootstrap}",
            "metadata.kafka.topic": topic,
            "metadata.kafka.replication": "1",
            "metadata.kafka.partitions": str(PARTITIONS),
        }
        # One takes snapshots all the time, one only when it stops, one never.
        snapshots: tuple[dict[str, str], ...] = (
            {"metadata.snapshot.interval": "0.5"},
            {},
            {"metadata.snapshot.directory": ""},
        )
        self.planes = [
            PlaneProcess("metadata", data_directory=directory / f"replica-{number}", settings={**settings, **extra})
            for number, extra in zip(range(count), snapshots, strict=False)
        ]

    @property
    def target(self) -> str:
        return "ipv4:" + ",".join(plane.address for plane in self.planes)


@contextmanager
def running_replicas(directory: Path, broker: KafkaBroker, *, topic: str, count: int = 3) -> Iterator[Replicas]:
    replicas = Replicas(directory, broker, topic=topic, count=count)
    try:
        for plane in replicas.planes:
            plane.start()
        yield replicas
    finally:
        for plane in replicas.planes:
            if plane.is_running():
                plane.kill()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory, broker: KafkaBroker) -> Iterator[Replicas]:
    with running_replicas(tmp_path_factory.mktemp("contract"), broker, topic="contract") as running:
        yield running


class TestMetadataOnKafkaBehindABalancer(RemoteLogMetadataContract):
    """The whole contract, with every call on another replica: reads see what was acknowledged, whoever answers."""

    @pytest.fixture
    def metadata(self, replicas: Replicas) -> Iterator[RemoteLogMetadata]:
        with connect(replicas.target, timeout_s=20) as tiergate:
            yield tiergate.metadata


def test_clients_that_hop_between_replicas_read_their_own_writes(tmp_path: Path, broker: KafkaBroker) -> None:
    with running_replicas(tmp_path, broker, topic="hopping") as replicas:
        failures: list[str] = []

        def write_and_read(number: int) -> None:
            with connect(replicas.target, timeout_s=20) as tiergate:
                partition = new_partition(f"topic-{number}")
                seen = 0
                for start in range(0, 300, 10):
                    segment = new_segment(partition, start, start + 9)
                    tiergate.metadata.add_segment(segment)
                    finish = segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1)
                    tiergate.metadata.update_segment(finish)
                    for _ in range(3):
                        found = tiergate.metadata.find_segment(partition, leader_epoch=0, offset=start)
                        listed = sum(1 for _ in tiergate.metadata.list_segments(partition))
                        if found is None or listed < seen:
                            failures.append(f"{number} at {start}: found {found}, listed {listed} after {seen}")
                        seen = listed

        threads = [threading.Thread(target=write_and_read, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_token_of_a_recreated_topic_is_log_changed(tmp_path: Path, broker: KafkaBroker) -> None:
    with (
        running_replicas(tmp_path, broker, topic="recreated", count=1) as replicas,
        connect(replicas.target) as tiergate,
    ):
        segment = new_segment(new_partition(), 0, 9)
        tiergate.metadata.add_segment(segment)
        (plane,) = replicas.planes
        plane.stop()
        KafkaTopics(broker).delete("recreated")
        plane.start()
        with pytest.raises(LogChanged):
            tiergate.metadata.get_segment(segment.segment_id)
        with pytest.raises(SegmentNotFound):
            tiergate.metadata.get_segment(segment.segment_id)


@dataclass
class Racer(threading.Thread):
    """Moves segments that others move too, and keeps what it was told."""

    target: str
    segments: list[RemoteLogSegmentMetadata]
    stop: threading.Event
    seed: int
    acknowledged: set[tuple[SegmentId, SegmentState]] = field(default_factory=set)
    crash: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__()

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        chance = random.Random(self.seed)
        try:
            with connect(self.target, timeout_s=3) as tiergate:
                while not self.stop.is_set():
                    self._step(tiergate, chance.choice(self.segments), chance.choice(list(SegmentState)))
        except BaseException as crash:
            self.crash = crash
            raise

    def _step(self, tiergate: Tiergate, segment: RemoteLogSegmentMetadata, state: SegmentState) -> None:
        try:
            if state is SegmentState.COPY_STARTED:
                tiergate.metadata.add_segment(segment)
            else:
                tiergate.metadata.update_segment(segment.step(state, event_timestamp_ms=self.seed))
            self.acknowledged.add((segment.segment_id, state))
        except (InvalidTransition, SegmentNotFound, *UNKNOWN_OUTCOMES):
            pass


@pytest.mark.timeout(ROUNDS * 20 + 240)
def test_replicas_converge_and_keep_what_they_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {ROUNDS} rounds")
    chance = random.Random(seed)
    with (
        running_broker(tmp_path / "broker") as broker,
        running_replicas(tmp_path, broker, topic="racing") as replicas,
    ):
        partitions = [new_partition(f"topic-{number}") for number in range(4)]
        stop = threading.Event()
        racers: list[Racer] = []
        for number in range(3):
            segments = [
                new_segment(partition, start, start + chance.choice((9, 19)))
                for partition in partitions
                for start in range(0, 400, 10)
            ]
            racers.append(Racer(replicas.target, segments, stop, seed + number))
        shared = racers[0].segments
        for racer in racers:
            racer.segments = shared
            racer.start()
        try:
            for round_number in range(ROUNDS):
                time.sleep(chance.uniform(0.2, 1.0))
                if round_number == ROUNDS // 2:
                    broker.restart()
                victim = chance.choice(replicas.planes)
                (victim.kill if chance.random() < 0.7 else victim.stop)()
                victim.start()
        finally:
            stop.set()
            for racer in racers:
                racer.join()
        assert not [racer.crash for racer in racers if racer.crash]

        state, applied = _replayed(broker, "racing")
        acknowledged = set().union(*(racer.acknowledged for racer in racers))
        # DELETE_FINISHED of a segment that is not there is fine, and is not published.
        lost = {step for step in acknowledged - applied if step[1] is not SegmentState.DELETE_FINISHED}
        print(f"{len(applied)} steps applied, {len(acknowledged)} acknowledged")
        assert not lost
        assert len(applied) > 50
        answers = []
        for plane in replicas.planes:
            with connect(plane.address, timeout_s=20) as tiergate:
                answers.append(_everything(tiergate.metadata, partitions))
        assert answers[0] == answers[1] == answers[2]
        expected = {
            partition: state.segments_after(partition, leader_epoch=None, after=None, limit=10_000)
            for partition in partitions
        }
        assert {partition: listed for partition, (listed, _) in answers[0].items()} == expected


def _replayed(broker: KafkaBroker, topic: str) -> tuple[MetadataState, set[tuple[SegmentId, SegmentState]]]:
    """What the log holds, applied from its beginning, and every step that counted."""
    log = KafkaEventLog(KafkaLogSettings(broker.bootstrap, topic=topic, follow=True))
    state = MetadataState()
    applied: set[tuple[SegmentId, SegmentState]] = set()
    ends = log.end_offsets(range(PARTITIONS))
    stream = log.subscribe(dict.fromkeys(range(PARTITIONS), 0))
    left = sum(ends.values())
    while left:
        for record in stream.poll(timeout_s=1):
            left -= 1
            event = decode_event(record.value)
            if isinstance(state.apply(event), Applied):
                assert not isinstance(event, RemotePartitionDeleteMetadata)
                applied.add((event.segment_id, event.state))
    log.close()
    return state, applied


def _everything(
    metadata: RemoteLogMetadata, partitions: list[TopicIdPartition]
) -> dict[TopicIdPartition, tuple[list[RemoteLogSegmentMetadata], list[object]]]:
    return {
        partition: (
            list(metadata.list_segments(partition)),
            [metadata.find_segment(partition, leader_epoch=0, offset=offset) for offset in range(0, 420, 5)]
            + [metadata.highest_offset_for_epoch(partition, leader_epoch=0)],
        )
        for partition in partitions
    }
