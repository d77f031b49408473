"""What every MetadataEventLog promises. An adapter joins by one more factory."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.kafka_broker import KafkaBroker
from tiergate_client.errors import MetadataLogUnavailable
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.metadata.event_log import EventStream, LogRecord, MetadataEventLog, StreamClosed

WAIT_S = 20.0
QUIET_S = 0.05  # long enough for a record that should not come to come


@dataclass(frozen=True, slots=True)
class Place:
    """Where a factory makes its log."""

    request: pytest.FixtureRequest
    directory: Path
    name: str

    @property
    def kafka(self) -> KafkaBroker:
        """Asked for only by those who need it, since it takes seconds to start."""
        broker = self.request.getfixturevalue("kafka")
        assert isinstance(broker, KafkaBroker)
        return broker


def kafka_log(place: Place, partition_count: int) -> MetadataEventLog:
    return KafkaEventLog(
        KafkaLogSettings(place.kafka.bootstrap, topic=place.name, partitions=partition_count, replication=1)
    )


FACTORIES: dict[str, Callable[[Place, int], MetadataEventLog]] = {
    "embedded": lambda place, count: EmbeddedEventLog(place.directory / "events.db", partition_count=count),
    "kafka": kafka_log,
    "memory": lambda _, count: MemoryEventLog(partition_count=count),
}


class MakeLog(Protocol):
    def __call__(self, partition_count: int = 3) -> MetadataEventLog: ...


@pytest.fixture(params=FACTORIES)
def make_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeLog]:
    """Makes a new log at each call and closes them all at the end."""
    logs: list[MetadataEventLog] = []

    def make(partition_count: int = 3) -> MetadataEventLog:
        name = f"log-{secrets.token_hex(8)}"
        logs.append(FACTORIES[request.param](Place(request, tmp_path / name, name), partition_count))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


@pytest.fixture
def log(make_log: MakeLog) -> MetadataEventLog:
    return make_log()


def publish(log: MetadataEventLog, partition: int, *values: bytes) -> list[int]:
    futures = [log.publish(partition, value) for value in values]
    return [future.result(WAIT_S) for future in futures]


def take(stream: EventStream, count: int) -> list[LogRecord]:
    """Exactly `count` records, and no more; without the epoch, which only some logs have."""
    records: list[LogRecord] = []
    deadline = time.monotonic() + WAIT_S
    while len(records) < count and time.monotonic() < deadline:
        records += stream.poll(timeout_s=1)
    records += stream.poll(timeout_s=QUIET_S)
    assert len(records) == count
    return plain(records)


def plain(records: list[LogRecord]) -> list[LogRecord]:
    return [replace(record, leader_epoch=-1) for record in records]


def run(*targets: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_publish_gives_contiguous_offsets_per_partition(log: MetadataEventLog) -> None:
    assert publish(log, 0, b"a", b"b", b"c") == [0, 1, 2]
    assert publish(log, 2, b"d") == [0]
    assert publish(log, 0, b"e") == [3]


def test_end_offsets_are_the_next_offsets(log: MetadataEventLog) -> None:
    publish(log, 1, b"a", b"b")
    assert log.end_offsets([0, 1]) == {0: 0, 1: 2}
    assert log.end_offsets([]) == {}


def test_end_offsets_lie_beyond_every_acknowledged_record(log: MetadataEventLog) -> None:
    for _ in range(50):
        offset = log.publish(0, b"x").result(WAIT_S)
        assert log.end_offsets([0])[0] > offset


def test_partition_count_and_id_are_those_of_the_log(make_log: MakeLog) -> None:
    one, other = make_log(7), make_log(1)
    assert (one.partition_count, other.partition_count) == (7, 1)
    assert one.log_id == one.log_id != other.log_id


@pytest.mark.parametrize("partition", [-1, 3])
def test_publish_is_refused_for_a_partition_that_does_not_exist(log: MetadataEventLog, partition: int) -> None:
    with pytest.raises(ValueError, match=f"partition {partition} "):
        log.publish(partition, b"x")


def test_subscribe_begins_at_the_inclusive_start(log: MetadataEventLog) -> None:
    publish(log, 0, b"a", b"b", b"c")
    publish(log, 1, b"d")
    stream = log.subscribe({0: 1, 1: 0})
    assert sorted(take(stream, 3), key=lambda record: (record.partition, record.offset)) == [
        LogRecord(0, 1, b"b"),
        LogRecord(0, 2, b"c"),
        LogRecord(1, 0, b"d"),
    ]


def test_subscribe_beyond_the_end_waits_for_that_offset(log: MetadataEventLog) -> None:
    stream = log.subscribe({0: 2})
    publish(log, 0, b"a", b"b", b"c")
    assert take(stream, 1) == [LogRecord(0, 2, b"c")]


def test_poll_is_empty_when_nothing_came_in_time(log: MetadataEventLog) -> None:
    publish(log, 1, b"other partition")
    assert log.subscribe({0: 0}).poll(timeout_s=QUIET_S) == []


def test_poll_returns_at_most_max_records_in_offset_order(log: MetadataEventLog) -> None:
    publish(log, 0, *(b"%d" % number for number in range(10)))
    stream = log.subscribe({0: 0})
    polled = [stream.poll(timeout_s=WAIT_S, max_records=3) for _ in range(4)]
    assert all(1 <= len(records) <= 3 for records in polled)
    received = [record for records in polled for record in records]
    received += take(stream, 10 - len(received))
    assert plain(received) == [LogRecord(0, number, b"%d" % number) for number in range(10)]


def test_a_waiting_poll_returns_a_live_record(log: MetadataEventLog) -> None:
    stream = log.subscribe({0: 0})
    received: list[LogRecord] = []
    threads = run(lambda: received.extend(stream.poll(timeout_s=WAIT_S)))
    publish(log, 0, b"live")
    join(threads)
    assert plain(received) == [LogRecord(0, 0, b"live")]


def test_two_subscribers_each_see_every_record_whoever_published(log: MetadataEventLog) -> None:
    streams = [log.subscribe({0: 0}), log.subscribe({0: 0})]
    publish(log, 0, b"from one")
    publish(log, 0, b"from the other")
    for stream in streams:
        assert [record.value for record in take(stream, 2)] == [b"from one", b"from the other"]


def test_large_values_arrive_whole(log: MetadataEventLog) -> None:
    values = [bytes([number]) * (1 << 20) for number in range(6)]
    publish(log, 0, *values, b"")
    assert [record.value for record in take(log.subscribe({0: 0}), 7)] == [*values, b""]


def test_add_is_idempotent_and_keeps_the_position(log: MetadataEventLog) -> None:
    publish(log, 0, b"a", b"b")
    stream = log.subscribe({})
    stream.add({0: 0})
    take(stream, 2)
    stream.add({0: 0})
    assert stream.poll(timeout_s=QUIET_S) == []
    assert stream.partitions() == frozenset({0})


def test_add_wakes_a_waiting_poll(log: MetadataEventLog) -> None:
    publish(log, 1, b"backlog")
    stream = log.subscribe({0: 0})
    received: list[LogRecord] = []
    threads = run(lambda: received.extend(stream.poll(timeout_s=WAIT_S)))
    stream.add({1: 0})
    join(threads)
    assert plain(received) == [LogRecord(1, 0, b"backlog")]


def test_remove_is_idempotent_and_effective(log: MetadataEventLog) -> None:
    stream = log.subscribe({0: 0, 1: 0})
    publish(log, 0, b"unread")
    stream.remove([0, 2])
    stream.remove([0])
    publish(log, 0, b"later")
    publish(log, 1, b"kept")
    assert take(stream, 1) == [LogRecord(1, 0, b"kept")]
    assert stream.partitions() == frozenset({1})


def test_a_removed_partition_added_again_continues_at_the_new_offset(log: MetadataEventLog) -> None:
    publish(log, 0, b"a", b"b", b"c")
    stream = log.subscribe({0: 0})
    take(stream, 3)
    stream.remove([0])
    stream.add({0: 1})
    assert [record.offset for record in take(stream, 2)] == [1, 2]


def test_nothing_of_a_partition_is_polled_after_remove_while_it_is_published(log: MetadataEventLog) -> None:
    stream = log.subscribe({0: 0, 1: 0})
    removed, done, seen = threading.Event(), threading.Event(), threading.Event()
    late: list[LogRecord] = []

    def poll() -> None:
        while not done.is_set():
            was_removed = removed.is_set()
            records = [record for record in stream.poll(timeout_s=0.01, max_records=5) if record.partition == 0]
            if records:
                seen.set()
            if was_removed:
                late.extend(records)

    def publish_on() -> None:
        while not done.is_set():
            log.publish(0, b"x").result(WAIT_S)

    threads = run(poll, publish_on)
    assert seen.wait(WAIT_S)
    stream.remove([0])
    removed.set()
    publish(log, 0, *[b"after"] * 50)
    done.set()
    join(threads)
    assert late == []


def test_every_record_is_delivered_once_while_publishers_run(log: MetadataEventLog) -> None:
    per_publisher = 150
    acknowledged: list[tuple[int, int, bytes]] = []

    def publisher(name: int) -> Callable[[], None]:
        def work() -> None:
            for number in range(per_publisher):
                partition, value = number % 3, b"%d-%d" % (name, number)
                acknowledged.append((partition, log.publish(partition, value).result(WAIT_S), value))

        return work

    publish(log, 0, b"backlog")
    acknowledged.append((0, 0, b"backlog"))
    threads = run(*(publisher(name) for name in range(4)))
    stream = log.subscribe({0: 0, 1: 0})
    received = stream.poll(timeout_s=WAIT_S, max_records=7)
    stream.add({2: 0})
    received += take(stream, 4 * per_publisher + 1 - len(received))
    join(threads)
    assert sorted((record.partition, record.offset, record.value) for record in received) == sorted(acknowledged)
    for partition in range(3):
        offsets = [record.offset for record in received if record.partition == partition]
        assert offsets == list(range(log.end_offsets([partition])[partition]))


def test_a_cancelled_publish_is_never_appended_and_any_other_is(log: MetadataEventLog) -> None:
    futures = {b"%d" % number: log.publish(0, b"%d" % number) for number in range(400)}
    cancelled = {value for number, (value, future) in enumerate(futures.items()) if number % 2 and future.cancel()}
    appended = {value: future.result(WAIT_S) for value, future in futures.items() if value not in cancelled}
    received = take(log.subscribe({0: 0}), len(appended))
    assert {record.value: record.offset for record in received} == appended


@pytest.mark.parametrize("what", ["stream", "log"])
def test_close_ends_a_waiting_poll(log: MetadataEventLog, what: str) -> None:
    stream = log.subscribe({0: 0})
    polling = threading.Event()
    ended: Future[float] = Future()

    def poll() -> None:
        polling.set()
        try:
            stream.poll(timeout_s=WAIT_S)
        except StreamClosed:
            ended.set_result(time.monotonic())

    threads = run(poll)
    polling.wait(WAIT_S)
    closed_at = time.monotonic()
    (stream if what == "stream" else log).close()
    assert ended.result(WAIT_S / 2) - closed_at < WAIT_S / 2
    join(threads)
    with pytest.raises(StreamClosed):
        stream.poll(timeout_s=0)


def test_a_closed_stream_leaves_the_others_alone(log: MetadataEventLog) -> None:
    closed, other = log.subscribe({0: 0}), log.subscribe({0: 0})
    closed.close()
    closed.close()
    publish(log, 0, b"x")
    assert take(other, 1) == [LogRecord(0, 0, b"x")]


def test_a_closed_log_refuses_everything(log: MetadataEventLog) -> None:
    publish(log, 0, b"x")
    log.close()
    log.close()
    with pytest.raises(MetadataLogUnavailable):
        log.publish(0, b"late").result(WAIT_S)
    with pytest.raises(MetadataLogUnavailable):
        log.end_offsets([0])
    with pytest.raises(StreamClosed):
        log.subscribe({0: 0}).poll(timeout_s=0)


def test_close_leaves_no_publish_without_an_answer(log: MetadataEventLog) -> None:
    futures = [log.publish(0, b"x") for _ in range(500)]
    log.close()
    errors = [future.exception(WAIT_S) for future in futures]
    assert all(error is None or isinstance(error, MetadataLogUnavailable) for error in errors)


PARTITIONS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), PARTITIONS, st.integers(1, 4)),
        st.tuples(st.just("add"), PARTITIONS, st.integers(0, 6)),
        st.tuples(st.just("remove"), PARTITIONS, st.just(0)),
        st.tuples(st.just("poll"), PARTITIONS, st.integers(1, 5)),
    ),
    max_size=40,
)


class Model:
    """What a stream has to deliver: the log as lists, the subscription as positions."""

    def __init__(self) -> None:
        self.values: list[list[bytes]] = [[], [], []]
        self.positions: dict[int, int] = {}

    def unread(self) -> int:
        return sum(max(0, len(self.values[partition]) - at) for partition, at in self.positions.items())

    def deliver(self, records: list[LogRecord]) -> None:
        for record in records:
            assert record.offset == self.positions[record.partition]
            assert record.value == self.values[record.partition][record.offset]
            self.positions[record.partition] += 1


@pytest.mark.parametrize("make_log", sorted(FACTORIES.keys() - {"kafka"}), indirect=True)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_stream_follows_the_model_for_any_interleaving(make_log: MakeLog, steps: list[tuple[str, int, int]]) -> None:
    follow_the_model(make_log(), steps)


@pytest.mark.parametrize("make_log", ["kafka"], indirect=True)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_stream_of_kafka_follows_the_model_for_any_interleaving(
    make_log: MakeLog, steps: list[tuple[str, int, int]]
) -> None:
    follow_the_model(make_log(), steps)


def follow_the_model(log: MetadataEventLog, steps: list[tuple[str, int, int]]) -> None:
    model = Model()
    stream = log.subscribe({})
    for number, (what, partition, count) in enumerate(steps):
        if what == "publish":
            values = [b"%d-%d" % (number, index) for index in range(count)]
            first = len(model.values[partition])
            assert publish(log, partition, *values) == list(range(first, first + count))
            model.values[partition] += values
        elif what == "add":
            stream.add({partition: count})
            model.positions.setdefault(partition, count)
        elif what == "remove":
            stream.remove([partition])
            model.positions.pop(partition, None)
        else:
            unread = model.unread()
            records = stream.poll(timeout_s=WAIT_S if unread else 0, max_records=count)
            assert min(unread, 1) <= len(records) <= min(unread, count)
            model.deliver(records)
        assert stream.partitions() == frozenset(model.positions)
    while model.unread():
        model.deliver(stream.poll(timeout_s=WAIT_S))
    assert stream.poll(timeout_s=0) == []
    log.close()
