"""The event log while brokers go away and come back, and leaders change: what was acknowledged stays so."""

from __future__ import annotations

import threading
from collections import Counter
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

pytestmark = pytest.mark.timeout(300)

WAIT_S = 30.0
# A record that was on its way when a broker went may be given up only after the producer's delivery timeout of 30 s,
# and what is behind it waits for that.
RECOVERY_S = 75.0

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

    def wait_for(self, count: int, *, timeout_s: float = RECOVERY_S) -> None:
        """Until so many are acknowledged."""
        try:
            wait_until(lambda: self.outcomes()["acknowledged"] >= count, timeout_s=timeout_s)
        except AssertionError:
            pytest.fail(f"{count} were to be acknowledged within {timeout_s} s: {dict(self.outcomes())}")

    def outcomes(self) -> Counter[str]:
        """How many are acknowledged, still out, or failed, by the error."""
        return Counter(map(_outcome, tuple(self.fates)))

    def _work(self) -> None:
        while not self._stop.wait(0.002):
            number = len(self.fates)
            partition, value = number % 3, f"{self._name}-{number:06}".encode()
            self.fates.append(Fate(partition, value, self._log.publish(partition, value)))


def _outcome(fate: Fate) -> str:
    if not fate.future.done():
        return "out"
    error = fate.future.exception()
    return "acknowledged" if error is None else repr(error)


Publishing = Callable[[KafkaEventLog, str], Publisher]


@pytest.fixture
def publishing() -> Iterator[Publishing]:
    """Begins to publish; ends with the test, however that ends."""
    begun: list[Publisher] = []

    def begin(log: KafkaEventLog, name: str) -> Publisher:
        begun.append(Publisher(log, name))
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()


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
def test_publishers_and_subscribers_survive_a_broker_restart(
    tmp_path: Path, how: str, open_log: OpenLog, publishing: Publishing
) -> None:
    with running_broker(tmp_path / "kafka") as broker:
        log = open_log([broker])
        stream = log.subscribe({0: 0, 1: 0, 2: 0})
        publishers = [publishing(log, name) for name in ("one", "other")]
        for each in publishers:
            each.wait_for(100, timeout_s=WAIT_S)
        (broker.stop if how == "stop" else broker.kill)()
        probes = cancelled_in_the_outage(log)
        counts = [len(each.fates) for each in publishers]
        broker.start()
        for each, count in zip(publishers, counts, strict=True):
            each.wait_for(count + 100)
            each.stop()
        histories = [probes, *(each.fates for each in publishers)]
        live = take(stream, settled_end(log, histories))
        assert_log_kept_its_word(log, histories, live)


def test_publishers_and_subscribers_survive_leader_changes(
    tmp_path: Path, open_log: OpenLog, publishing: Publishing, name: str
) -> None:
    with running_cluster(tmp_path) as brokers:
        log = open_log(brokers)
        stream = log.subscribe({0: 0, 1: 0, 2: 0})
        topics = KafkaTopics(brokers[0])
        publisher = publishing(log, "only")
        victim = brokers[1]
        publisher.wait_for(100, timeout_s=WAIT_S)
        assert victim.node_id in topics.leaders(name).values()
        victim.kill()
        count = len(publisher.fates)
        publisher.wait_for(count + 100)
        assert victim.node_id not in topics.leaders(name).values()
        victim.start()
        wait_until(lambda: topics.in_sync(name) == 3, timeout_s=WAIT_S)
        topics.elect_preferred_leaders(name)
        count = len(publisher.fates)
        publisher.wait_for(count + 100)
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
