"""The event log while brokers go away and come back, and leaders change: what was acknowledged stays so."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest

from support.event_streams import poll_until_it_raises, take
from support.kafka_broker import KafkaBroker, running_broker, running_cluster
from support.kafka_topics import KafkaTopics
from support.waiting import wait_until
from tiergate_client.errors import CommitStateUnknown, MetadataLogUnavailable
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.metadata.event_log import LogRecord, PositionLost

WAIT_S = 30.0

OpenLog = Callable[[Sequence[KafkaBroker]], KafkaEventLog]


@pytest.fixture
def name() -> str:
    return KafkaTopics.unused_name()


@pytest.fixture
def open_log(name: str) -> Iterator[OpenLog]:
    """Opens logs on every broker of a cluster, and closes them."""
    logs: list[KafkaEventLog] = []

    def open_(brokers: Sequence[KafkaBroker]) -> KafkaEventLog:
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        settings = KafkaLogSettings(bootstrap, name, partitions=3, replication=len(brokers))
        logs.append(KafkaEventLog(settings, verify_every_s=0.3))
        return logs[-1]

    yield open_
    for log in logs:
        log.close()


class Fate(NamedTuple):
    """What was published, and what became of it."""

    partition: int
    value: bytes
    future: Future[int]


class Publisher:
    """Publishes numbered records over three partitions until it is told to stop."""

    def __init__(self, log: KafkaEventLog, name: str) -> None:
        self._log = log
        self._name = name
        self.fates: list[Fate] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def has_acknowledged(self, count: int) -> bool:
        return sum(1 for fate in self.fates if fate.future.done() and fate.future.exception() is None) >= count

    def _work(self) -> None:
        while not self._stop.wait(0.002):
            number = len(self.fates)
            partition, value = number % 3, f"{self._name}-{number:06}".encode()
            self.fates.append(Fate(partition, value, self._log.publish(partition, value)))


def cancelled_in_the_outage(log: KafkaEventLog) -> list[Fate]:
    """Publishes until a record is held back, so that it can be cancelled."""
    fates: list[Fate] = []

    def cancel_one() -> bool:
        value = f"probe-{len(fates):06}".encode()
        fates.append(Fate(0, value, log.publish(0, value)))
        return fates[-1].future.cancel()

    wait_until(cancel_one, timeout_s=WAIT_S)
    return fates


def assert_log_kept_its_word(log: KafkaEventLog, histories: list[list[Fate]], live: list[LogRecord]) -> None:
    """Acknowledged is at its offset, not appended is nowhere, nothing is there twice, each publisher's order holds."""
    for partition in range(3):
        offsets = [record.offset for record in live if record.partition == partition]
        assert offsets == list(range(log.end_offsets([partition])[partition]))
    places = {record.value: (record.partition, record.offset) for record in live}
    assert len(places) == len(live)
    for fates in histories:
        newest = dict.fromkeys(range(3), -1)
        for partition, value, future in fates:
            error = None if future.cancelled() else future.exception(WAIT_S)
            if future.cancelled() or isinstance(error, MetadataLogUnavailable):
                assert value not in places
            elif error is None:
                assert places[value] == (partition, future.result())
                assert future.result() > newest[partition]
                newest[partition] = future.result()
            else:
                assert isinstance(error, CommitStateUnknown)


def settled_end(log: KafkaEventLog, histories: list[list[Fate]]) -> int:
    """How many records there are once nothing is on its way any more."""
    for fates in histories:
        for fate in fates:
            assert fate.future.cancelled() or isinstance(fate.future.exception(WAIT_S), Exception | None)
    return sum(log.end_offsets(range(3)).values())


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_publishers_and_subscribers_survive_a_broker_restart(tmp_path: Path, how: str, open_log: OpenLog) -> None:
    with running_broker(tmp_path / "kafka") as broker:
        log = open_log([broker])
        stream = log.subscribe({0: 0, 1: 0, 2: 0})
        publishers = [Publisher(log, name) for name in ("one", "other")]
        wait_until(lambda: all(each.has_acknowledged(100) for each in publishers), timeout_s=WAIT_S)
        (broker.stop if how == "stop" else broker.kill)()
        probes = cancelled_in_the_outage(log)
        counts = [len(each.fates) for each in publishers]
        broker.start()
        for each, count in zip(publishers, counts, strict=True):
            wait_until(functools.partial(each.has_acknowledged, count + 100), timeout_s=WAIT_S)
            each.stop()
        histories = [probes, *(each.fates for each in publishers)]
        live = take(stream, settled_end(log, histories))
        assert_log_kept_its_word(log, histories, live)


def test_publishers_and_subscribers_survive_leader_changes(tmp_path: Path, open_log: OpenLog, name: str) -> None:
    with running_cluster(tmp_path) as brokers:
        log = open_log(brokers)
        stream = log.subscribe({0: 0, 1: 0, 2: 0})
        topics = KafkaTopics(brokers[0])
        publisher = Publisher(log, "only")
        victim = brokers[1]
        wait_until(lambda: publisher.has_acknowledged(100), timeout_s=WAIT_S)
        assert victim.node_id in topics.leaders(name).values()
        victim.kill()
        count = len(publisher.fates)
        wait_until(lambda: publisher.has_acknowledged(count + 100), timeout_s=WAIT_S)
        assert victim.node_id not in topics.leaders(name).values()
        victim.start()
        wait_until(lambda: topics.in_sync(name) == 3, timeout_s=WAIT_S)
        topics.elect_preferred_leaders(name)
        count = len(publisher.fates)
        wait_until(lambda: publisher.has_acknowledged(count + 100), timeout_s=WAIT_S)
        assert victim.node_id in topics.leaders(name).values()
        publisher.stop()
        live = take(stream, settled_end(log, [publisher.fates]))
        assert_log_kept_its_word(log, [publisher.fates], live)
        assert len({record.leader_epoch for record in live}) > 1


@pytest.mark.parametrize("written_after", [0, 9], ids=["shorter", "longer than before"])
def test_a_log_that_lost_its_end_to_an_unclean_election_is_told(
    tmp_path: Path, open_log: OpenLog, name: str, written_after: int
) -> None:
    with running_cluster(tmp_path, brokers=3) as brokers:
        leader, follower = brokers[1], brokers[2]
        topics = KafkaTopics(brokers[0])
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        topics.create(name, replicas=[[leader.node_id, follower.node_id]], config=config)
        log = open_log(brokers)
        stream = log.subscribe({0: 0})
        kept = [log.publish(0, b"kept").result(WAIT_S) for _ in range(3)]
        follower.stop()
        lost = [log.publish(0, b"lost").result(WAIT_S) for _ in range(5)]
        assert [record.offset for record in take(stream, 8)] == [*kept, *lost]
        leader.kill()
        follower.start()
        wait_until(lambda: topics.leaders(name) == {0: follower.node_id}, timeout_s=WAIT_S)
        topics.write(name, 0, *[b"other"] * written_after)
        told = poll_until_it_raises(stream)
        assert isinstance(told, PositionLost)
        assert (told.partition, told.offset) == (0, 8)
        assert stream.partitions() == frozenset()
        assert log.end_offsets([0]) == {0: 3 + written_after}
