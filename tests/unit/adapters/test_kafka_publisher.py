"""How records are sent, held back and given up, over a producer whose reports the test decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.waiting import wait_until
from tiergate_client.errors import CommitStateUnknown, MetadataLogUnavailable
from tiergate_server.adapters.kafka_publisher import Delivered, KafkaPublisher, NotSent, RecordProducer

WAIT_S = 10.0


class HandledProducer(RecordProducer):
    """Keeps what is sent until the test reports on it."""

    def __init__(self) -> None:
        self.is_broken = False
        self.is_full = False
        self.sent: list[tuple[int, bytes, Delivered]] = []
        self._idle = threading.Event()

    def send(self, partition: int, value: bytes, delivered: Delivered) -> None:
        if self.is_full:
            raise NotSent("the client's queue is full")
        self.sent.append((partition, value, delivered))

    def serve(self, timeout_s: float) -> None:
        self._idle.wait(min(timeout_s, 0.005))

    def flush(self, timeout_s: float) -> None: ...

    def abandon(self) -> None:
        while self.sent:
            self.fail()

    def acknowledge(self, offset: int) -> None:
        self.sent.pop(0)[2](offset, None)

    def fail(self) -> None:
        self.sent.pop(0)[2](None, CommitStateUnknown("no report"))

    def values(self) -> list[bytes]:
        return [value for _, value, _ in self.sent]


class Setting:
    def __init__(self, *, delivery_timeout_s: float) -> None:
        self.producers: list[HandledProducer] = []
        self.publisher = KafkaPublisher(self._make, delivery_timeout_s=delivery_timeout_s, stalled_after_s=0.05)

    @property
    def producer(self) -> HandledProducer:
        return self.producers[-1]

    def _make(self) -> RecordProducer:
        self.producers.append(HandledProducer())
        return self.producers[-1]

    def stall(self) -> None:
        """Publishes until a record is no longer sent."""
        wait_until(lambda: self.publisher.publish(0, b"probe").cancel())


@pytest.fixture
def delivery_timeout_s() -> float:
    return WAIT_S


@pytest.fixture
def setting(delivery_timeout_s: float) -> Iterator[Setting]:
    made = Setting(delivery_timeout_s=delivery_timeout_s)
    yield made
    made.publisher.close("the test is over", flush_s=0)


def test_a_record_is_sent_at_once_and_can_no_longer_be_cancelled(setting: Setting) -> None:
    future = setting.publisher.publish(3, b"x")
    assert setting.producer.values() == [b"x"]
    assert not future.cancel()
    setting.producer.acknowledge(17)
    assert future.result(WAIT_S) == 17


def test_a_full_client_refuses_what_was_surely_not_appended(setting: Setting) -> None:
    setting.producer.is_full = True
    with pytest.raises(MetadataLogUnavailable, match="queue is full"):
        setting.publisher.publish(0, b"x").result(WAIT_S)


def test_what_is_held_back_while_reports_stay_out_is_sent_in_order_when_they_come(setting: Setting) -> None:
    setting.stall()
    futures = [setting.publisher.publish(0, b"%d" % number) for number in range(3)]
    assert futures[1].cancel()
    before = len(setting.producer.sent)
    for offset in range(before):
        setting.producer.acknowledge(offset)
    wait_until(lambda: setting.producer.values() == [b"0", b"2"])


def test_another_partition_is_not_held_back(setting: Setting) -> None:
    setting.stall()
    assert not setting.publisher.publish(1, b"x").cancel()
    assert setting.producer.values()[-1] == b"x"


@pytest.mark.parametrize("delivery_timeout_s", [0.3])
def test_what_is_held_back_too_long_was_not_appended(setting: Setting) -> None:
    setting.stall()
    with pytest.raises(MetadataLogUnavailable, match="did not answer in time"):
        setting.publisher.publish(0, b"late").result(WAIT_S)
    assert b"late" not in setting.producer.values()


def test_after_a_failure_one_record_at_a_time_is_tried(setting: Setting) -> None:
    first = setting.publisher.publish(0, b"first")
    setting.producer.fail()
    assert isinstance(first.exception(WAIT_S), CommitStateUnknown)
    setting.publisher.publish(0, b"trial")
    second = setting.publisher.publish(0, b"second")
    assert setting.producer.values() == [b"trial"]
    setting.producer.acknowledge(5)
    wait_until(lambda: setting.producer.values() == [b"second"])
    setting.producer.acknowledge(6)
    assert second.result(WAIT_S) == 6


def test_a_producer_that_broke_is_replaced_after_all_its_records_were_settled(setting: Setting) -> None:
    unsettled = setting.publisher.publish(0, b"unsettled")
    broken = setting.producer
    broken.is_broken = True
    held = setting.publisher.publish(0, b"held")
    assert isinstance(unsettled.exception(WAIT_S), CommitStateUnknown)
    wait_until(lambda: setting.producer is not broken and setting.producer.values() == [b"held"])
    setting.producer.acknowledge(0)
    assert held.result(WAIT_S) == 0
    assert broken.values() == []


def test_close_answers_everything_that_is_open(setting: Setting) -> None:
    sent = setting.publisher.publish(1, b"sent")
    setting.stall()
    held = setting.publisher.publish(0, b"held")
    setting.publisher.close("the topic is gone", flush_s=0)
    assert isinstance(sent.exception(WAIT_S), CommitStateUnknown)
    with pytest.raises(MetadataLogUnavailable, match="the topic is gone"):
        held.result(WAIT_S)
    with pytest.raises(MetadataLogUnavailable, match="the topic is gone"):
        setting.publisher.publish(0, b"late").result(WAIT_S)
