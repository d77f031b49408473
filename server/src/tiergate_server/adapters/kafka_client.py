"""The Kafka clients that the metadata topic needs, in the terms of the event log: the one module that knows the SDK.

Responsible for configuring librdkafka and for what its error codes mean; not for when to call it.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, OffsetSpec

from tiergate_client.errors import CommitStateUnknown, MetadataLogUnavailable
from tiergate_client.ids import LogId
from tiergate_server.adapters.kafka_publisher import Delivered, NotSent, RecordProducer
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.adapters.kafka_stream import Fetched, RecordReader
from tiergate_server.adapters.kafka_trouble import Troubles
from tiergate_server.metadata.event_log import EventLogRefused, LogRecord

_sdk_logger = logging.getLogger(f"{__name__}.librdkafka")

_Client = TypeVar("_Client")

_RETRY_AFTER_MS = 1000
_WAIT_SLICE_S = 0.02
_LEADER_PAUSE_S = 0.1
# The last one is what the client says itself when it finds no leader to ask.
_NO_LEADER_YET = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT}  # noqa: SLF001
)
_REFRESH_AFTER_S = 0.5
_NO_TOPIC_ID = bytes(16)
_REFUSED_ACCESS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# What depends on the record alone: no earlier attempt can have gone another way. After any other failure an attempt
# whose answer was lost may be in the log, and the client does not tell how many there were.
_NEVER_APPENDED = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_RECORD}
)
_LOST_POSITION = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001
)


class TopicMissing(Exception):
    """The cluster does not have the topic, or does not know of it yet."""


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """The topic as the cluster describes it."""

    topic_id: LogId | None
    partition_count: int
    may_read: bool
    may_write: bool


class KafkaAdmin:
    """Asks the cluster about the topic. Safe to use from many threads; every call ends in time or by `close`."""

    def __init__(self, settings: KafkaLogSettings, troubles: Troubles) -> None:
        self._settings = settings
        self._troubles = troubles
        self._closed = False
        config: dict[str, Any] = {**settings.admin(), "error_cb": _noting(troubles)}
        self._client = _made(lambda: AdminClient(config))

    def describe(self, *, timeout_s: float) -> KafkaTopic:
        """Raises TopicMissing, MetadataLogUnavailable."""
        topics = TopicCollection([self._settings.topic])
        asked = self._client.describe_topics(
            topics, include_authorized_operations=True, request_timeout=max(timeout_s, _WAIT_SLICE_S)
        )
        found = self._answer(asked[self._settings.topic], timeout_s=timeout_s)
        bits = (found.topic_id.get_most_significant_bits(), found.topic_id.get_least_significant_bits())
        raw_id = struct.pack(">qq", *bits)
        allowed = found.authorized_operations
        return KafkaTopic(
            topic_id=None if raw_id == _NO_TOPIC_ID else LogId(raw_id),
            partition_count=len(found.partitions),
            # Brokers that do not tell leave the list out.
            may_read=allowed is None or AclOperation.READ in allowed,
            may_write=allowed is None or AclOperation.WRITE in allowed,
        )

    def create(self, config: Mapping[str, str], *, if_known: Mapping[str, str], timeout_s: float) -> None:
        """Makes the topic, unless it is there; what the cluster does not know of `if_known` is left out.

        Raises MetadataLogUnavailable.
        """
        settings = self._settings
        topic = NewTopic(settings.topic, settings.partitions, settings.replication, config={**config, **if_known})
        asked = self._client.create_topics([topic], request_timeout=max(timeout_s, _WAIT_SLICE_S))
        try:
            self._answer(asked[settings.topic], timeout_s=timeout_s)
        except MetadataLogUnavailable as refusal:
            if _code(refusal) == KafkaError.INVALID_CONFIG and if_known:
                self.create(config, if_known={}, timeout_s=timeout_s)
            elif _code(refusal) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def begin_offsets(self, partitions: Iterable[int], *, timeout_s: float) -> dict[int, int]:
        return self._offsets(partitions, OffsetSpec.earliest(), timeout_s=timeout_s)

    def end_offsets(self, partitions: Iterable[int], *, timeout_s: float) -> dict[int, int]:
        return self._offsets(partitions, OffsetSpec.latest(), timeout_s=timeout_s)

    def close(self) -> None:
        self._closed = True

    def _offsets(self, partitions: Iterable[int], spec: OffsetSpec, *, timeout_s: float) -> dict[int, int]:
        wanted = {TopicPartition(self._settings.topic, partition): spec for partition in partitions}
        if not wanted:
            return {}
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._asked_offsets(wanted, deadline)
            except MetadataLogUnavailable as refusal:
                # A topic that was just made has no leaders for a moment, and so has one whose broker went away.
                is_passing = _code(refusal) in _NO_LEADER_YET
                if not is_passing or time.monotonic() + _LEADER_PAUSE_S > deadline:
                    raise
            time.sleep(_LEADER_PAUSE_S)
            self._learn_brokers()

    def _asked_offsets(self, wanted: Mapping[TopicPartition, OffsetSpec], deadline: float) -> dict[int, int]:
        asked = self._client.list_offsets(
            dict(wanted),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=max(deadline - time.monotonic(), _WAIT_SLICE_S),
        )
        return {
            place.partition: self._answer(future, timeout_s=deadline - time.monotonic()).offset
            for place, future in asked.items()
        }

    def _answer(self, future: Future[Any], *, timeout_s: float) -> Any:
        """The answer of the cluster. A wrong password is told at once: the client itself would go on trying."""
        asked_at = time.monotonic()
        refresh_at = asked_at + _REFRESH_AFTER_S
        while True:
            try:
                return future.result(_WAIT_SLICE_S)
            except TimeoutError:
                self._client.poll(0)
                trouble = self._troubles.since(asked_at)
                is_hopeless = trouble is not None and trouble.is_about_credentials
                if self._closed or is_hopeless or time.monotonic() > asked_at + timeout_s:
                    self._give_up(asked_at, KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
                if time.monotonic() > refresh_at:
                    self._learn_brokers()
                    refresh_at = time.monotonic() + _REFRESH_AFTER_S
            except KafkaException as failure:
                self._client.poll(0)
                self._give_up(asked_at, failure.args[0])

    def _learn_brokers(self) -> None:
        """Requests go to the broker that was last named as the controller, and wait for it even when it is gone."""
        with contextlib.suppress(KafkaException):
            self._client.list_topics(self._settings.topic, timeout=_REFRESH_AFTER_S)

    def _give_up(self, asked_at: float, error: KafkaError) -> NoReturn:
        topic, bootstrap = self._settings.topic, self._settings.bootstrap
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicMissing(f"Kafka at {bootstrap} has no topic {topic}.")
        trouble = self._troubles.since(asked_at)
        if error.code() in _REFUSED_ACCESS:
            text = f"Kafka at {bootstrap} does not allow this on the topic {topic} ({error.str()}): grant it by an ACL."
        elif trouble is not None and trouble.is_about_credentials:
            text = f"Kafka at {bootstrap} does not let us in ({trouble.text}): check the client settings."
        elif trouble is not None:
            text = f"Kafka at {bootstrap} cannot be reached ({trouble.text}): check the address and the brokers."
        else:
            text = f"Kafka at {bootstrap} gave no answer about the topic {topic} ({error.str()}): check the brokers."
        raise MetadataLogUnavailable(text, retry_after_ms=_RETRY_AFTER_MS) from KafkaException(error)


class KafkaProducer(RecordProducer):
    def __init__(self, settings: KafkaLogSettings, troubles: Troubles) -> None:
        self._topic = settings.topic
        self._troubles = troubles
        self.is_broken = False
        config: dict[str, Any] = {**settings.producer(), "error_cb": self._noted}
        self._client = _made(lambda: Producer(config, logger=_sdk_logger))

    def send(self, partition: int, value: bytes, delivered: Delivered) -> None:
        try:
            self._client.produce(
                self._topic,
                value,
                partition=partition,
                on_delivery=lambda error, message: self._report(error, message, delivered),
            )
        except BufferError:
            raise NotSent("the client's queue is full") from None
        except KafkaException as failure:
            raise NotSent(failure.args[0].str()) from None

    def serve(self, timeout_s: float) -> None:
        self._client.poll(timeout_s)

    def flush(self, timeout_s: float) -> None:
        self._client.flush(timeout_s)

    def abandon(self) -> None:
        self._client.purge()
        self._client.flush(1.0)

    def _report(self, error: KafkaError | None, message: Message, delivered: Delivered) -> None:
        if error is None:
            offset = message.offset()
            if offset is None:
                delivered(None, CommitStateUnknown(f"{self._topic} took the record without telling its offset."))
            else:
                delivered(offset, None)
            return
        self._noted(error)
        text = f"{self._topic} did not acknowledge the record ({error.str()})"
        if error.code() in _NEVER_APPENDED:
            delivered(None, MetadataLogUnavailable(f"{text}: Kafka refused it for what it is."))
        else:
            delivered(None, CommitStateUnknown(f"{text}: whether it is there is not known; read first or repeat."))

    def _noted(self, error: KafkaError) -> None:
        self.is_broken |= error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001
        self._troubles.note(error.name(), error.str())


class KafkaReader(RecordReader):
    """Assigned by hand, nothing is committed: no consumer group comes into being."""

    def __init__(self, settings: KafkaLogSettings, troubles: Troubles) -> None:
        self._topic = settings.topic
        self._troubles = troubles
        config: dict[str, Any] = {**settings.consumer(), "error_cb": _noting(troubles)}
        self._client = _made(lambda: Consumer(config, logger=_sdk_logger))

    def assign(self, starts: Mapping[int, int]) -> None:
        self._client.incremental_assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in starts.items()]
        )

    def unassign(self, partitions: Iterable[int]) -> None:
        self._client.incremental_unassign([TopicPartition(self._topic, partition) for partition in partitions])

    def fetch(self, *, max_records: int, timeout_s: float) -> Fetched:
        messages = self._client.consume(max_records, timeout=0)
        if not messages:
            message = self._client.poll(timeout_s)
            messages = [] if message is None else [message]
        fetched = Fetched()
        add = fetched.records.append
        for message in messages:
            if message.error() is None:
                epoch = message.leader_epoch()
                add(
                    LogRecord(
                        message.partition() or 0,
                        message.offset() or 0,
                        message.value() or b"",
                        -1 if epoch is None else epoch,
                    )
                )
            else:
                self._sort_out(message, fetched)
        return fetched

    def close(self) -> None:
        self._client.close()

    def _sort_out(self, message: Message, fetched: Fetched) -> None:
        error, partition = message.error(), message.partition()
        if error is None or partition is None:
            return
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            fetched.ended.append(partition)
        elif error.code() in _LOST_POSITION:
            fetched.lost.append(partition)
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the group is never used
            self._troubles.note(error.name(), f"partition {partition}: {error.str()}")


def _made(make: Callable[[], _Client]) -> _Client:
    try:
        return make()
    except KafkaException as refusal:
        text = refusal.args[0].str()
        raise EventLogRefused(f"Kafka's client refuses its settings ({text}): correct them and start again.") from None


def _noting(troubles: Troubles) -> Callable[[KafkaError], None]:
    return lambda error: troubles.note(error.name(), error.str())


def _code(refusal: MetadataLogUnavailable) -> int | None:
    cause = refusal.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None
