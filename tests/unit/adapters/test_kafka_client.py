"""What a delivery report of librdkafka means for the one who published."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from tiergate_client.errors import CommitStateUnknown, MetadataLogUnavailable, TiergateError
from tiergate_server.adapters.kafka_client import KafkaProducer
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.adapters.kafka_trouble import Troubles


@pytest.fixture
def producer() -> KafkaProducer:
    return KafkaProducer(KafkaLogSettings("127.0.0.1:1", "metadata"), Troubles("The topic metadata"))


def report(producer: KafkaProducer, error: KafkaError | None, offset: int) -> tuple[int | None, TiergateError | None]:
    told: list[tuple[int | None, TiergateError | None]] = []
    message = Message(topic="metadata", partition=0, offset=offset)
    producer._report(error, message, lambda at, failure: told.append((at, failure)))
    (only,) = told
    return only


def test_a_delivered_record_has_its_offset(producer: KafkaProducer) -> None:
    assert report(producer, None, 7) == (7, None)


def test_a_delivery_without_an_offset_is_not_believed(producer: KafkaProducer) -> None:
    offset, failure = report(producer, None, -1001)
    assert offset is None
    assert isinstance(failure, CommitStateUnknown)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, MetadataLogUnavailable),
        (KafkaError._MSG_TIMED_OUT, CommitStateUnknown),
        (KafkaError._PURGE_QUEUE, CommitStateUnknown),
        (KafkaError._PURGE_INFLIGHT, CommitStateUnknown),
        (KafkaError.NOT_LEADER_FOR_PARTITION, CommitStateUnknown),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, CommitStateUnknown),
    ],
)
def test_a_failed_delivery_is_unknown_unless_the_record_itself_was_refused(
    producer: KafkaProducer, code: int, kind: type[TiergateError]
) -> None:
    offset, failure = report(producer, KafkaError(code), -1001)
    assert offset is None
    assert type(failure) is kind
    assert not producer.is_broken


def test_a_fatal_error_breaks_the_producer(producer: KafkaProducer) -> None:
    report(producer, KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gap", fatal=True), -1001)
    assert producer.is_broken
