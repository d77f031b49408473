"""The metadata event log on Kafka: one topic, whose partitions are the log's and whose id is the log's.

Responsible for opening the topic and for noticing when it is no longer the one that was opened; the clients, the
publishing and the streams are its parts. What the events mean is not its business.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from tiergate_client.errors import MetadataLogUnavailable, ReadOnly
from tiergate_client.ids import LogId
from tiergate_server.adapters.kafka_client import KafkaAdmin, KafkaProducer, KafkaReader, KafkaTopic, TopicMissing
from tiergate_server.adapters.kafka_publisher import KafkaPublisher
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.adapters.kafka_stream import KafkaStream
from tiergate_server.adapters.kafka_trouble import Troubles
from tiergate_server.metadata.event_log import EventLogRefused, EventStream, MetadataEventLog

_logger = logging.getLogger(__name__)

_OPEN_TIMEOUT_S = 15.0
_ASK_TIMEOUT_S = 10.0
_VERIFY_TIMEOUT_S = 5.0
_VERIFY_EVERY_S = 2.0
_NEW_TOPIC_PAUSE_S = 0.1
_FLUSH_S = 5.0
# A broker that has just come up may not have heard of the topic yet.
_MISSING_AT_LEAST = 3


class KafkaEventLog(MetadataEventLog):
    def __init__(
        self,
        settings: KafkaLogSettings,
        *,
        timeout_s: float = _OPEN_TIMEOUT_S,
        verify_every_s: float = _VERIFY_EVERY_S,
    ) -> None:
        """Opens the topic, or makes it unless it only follows; the partition count of a topic that exists wins.

        Raises MetadataLogUnavailable when that is not possible now, EventLogRefused when it will not be with these
        settings.
        """
        _require_sensible(settings)
        settings.warn_of_overruled()
        self._settings = settings
        self._name = f"The topic {settings.topic} of Kafka at {settings.bootstrap}"
        self._troubles = Troubles(self._name)
        self._admin = KafkaAdmin(settings, self._troubles)
        topic = _open_topic(self._admin, settings, timeout_s=timeout_s)
        self._log_id = _require_usable(topic, settings)
        self._partition_count = topic.partition_count
        self._ended: str | None = None
        self._missing = 0
        self._lock = threading.Lock()
        self._verifying = threading.Lock()
        self._streams: weakref.WeakSet[KafkaStream] = weakref.WeakSet()
        self._publisher = None if settings.follow else self._open_publisher()
        self._stop = threading.Event()
        self._watch_every_s = verify_every_s
        self._watcher = threading.Thread(target=self._watch, name="kafka-topic-watcher", daemon=True)
        self._watcher.start()

    @property
    def log_id(self) -> LogId:
        return self._log_id

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def publish(self, partition: int, value: bytes) -> Future[int]:
        self._require([partition])
        if self._publisher is not None:
            return self._publisher.publish(partition, value)
        future: Future[int] = Future()
        future.set_exception(ReadOnly(f"{self._name} is only followed here: write through its own cluster."))
        return future

    def subscribe(self, starts: Mapping[int, int]) -> EventStream:
        stream = KafkaStream(
            self,
            lambda: KafkaReader(self._settings, self._troubles),
            partition_count=self._partition_count,
            starts=starts,
        )
        with self._lock:
            self._streams.add(stream)
            ended = self._ended
        if ended is not None:
            stream.end(ended)
        return stream

    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._admin.begin_offsets(self._askable(partitions), timeout_s=_ASK_TIMEOUT_S)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._admin.end_offsets(self._askable(partitions), timeout_s=_ASK_TIMEOUT_S)

    def close(self) -> None:
        """Ends every stream and waits a little for what was published; a second time is fine."""
        self._stop.set()
        self._end("The event log was closed.", flush_s=_FLUSH_S)
        self._admin.close()
        self._watcher.join()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()

    def verify(self) -> None:
        """Ends the log if the topic is no longer the one that was opened. Says nothing when Kafka does not answer."""
        with self._verifying:
            if self._ended is not None:
                return
            try:
                topic = self._admin.describe(timeout_s=_VERIFY_TIMEOUT_S)
            except TopicMissing:
                self._missing += 1
                if self._missing >= _MISSING_AT_LEAST:
                    self._end(f"{self._name} was deleted.", flush_s=0)
            except MetadataLogUnavailable as trouble:
                self._troubles.note("VERIFY", trouble.message)
            else:
                self._missing = 0
                if topic.topic_id != self._log_id:
                    why = f"was made anew: its id is {topic.topic_id}, it was {self._log_id}."
                    self._end(f"{self._name} {why}", flush_s=0)
                elif topic.partition_count != self._partition_count:
                    why = f"has {topic.partition_count} partitions now, it had {self._partition_count}."
                    self._end(f"{self._name} {why}", flush_s=0)

    def _watch(self) -> None:
        while not self._stop.wait(self._watch_every_s):
            self.verify()

    def _end(self, why: str, *, flush_s: float) -> None:
        with self._lock:
            if self._ended is None:
                self._ended = why
                if not self._stop.is_set():
                    _logger.error("%s Nothing more is read from it or written to it.", why)
            streams = list(self._streams)
        for stream in streams:
            stream.end(why)
        if self._publisher is not None:
            self._publisher.close(why, flush_s=flush_s)

    def _open_publisher(self) -> KafkaPublisher:
        return KafkaPublisher(
            lambda: KafkaProducer(self._settings, self._troubles), delivery_timeout_s=self._settings.delivery_timeout_s
        )

    def _require(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if not 0 <= partition < self._partition_count:
                raise ValueError(f"partition {partition} does not exist: the log has 0 to {self._partition_count - 1}")

    def _askable(self, partitions: Iterable[int]) -> list[int]:
        wanted = list(partitions)
        self._require(wanted)
        if self._ended is not None:
            raise MetadataLogUnavailable(f"{self._ended} Ask again when the log is open.")
        return wanted


def _require_sensible(settings: KafkaLogSettings) -> None:
    if settings.partitions < 1 or settings.replication < 1:
        raise EventLogRefused(
            f"The topic {settings.topic} cannot have {settings.partitions} partitions and {settings.replication} "
            "replicas: configure one of each at least."
        )


def _open_topic(admin: KafkaAdmin, settings: KafkaLogSettings, *, timeout_s: float) -> KafkaTopic:
    """The topic as the cluster describes it, after it was made if need be."""
    deadline = time.monotonic() + timeout_s
    try:
        return admin.describe(timeout_s=timeout_s)
    except TopicMissing as missing:
        if settings.follow:
            raise MetadataLogUnavailable(f"{missing} It is only followed, so its own cluster has to make it.") from None
    config = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "min.insync.replicas": str(min(2, settings.replication)),
    }
    # The topic must never be tiered itself; a cluster that does not know the setting cannot tier.
    admin.create(config, if_known={"remote.storage.enable": "false"}, timeout_s=deadline - time.monotonic())
    _logger.info("The topic %s has %d partitions by configuration", settings.topic, settings.partitions)
    while time.monotonic() < deadline:
        with contextlib.suppress(TopicMissing):
            return admin.describe(timeout_s=deadline - time.monotonic())
        time.sleep(_NEW_TOPIC_PAUSE_S)
    raise MetadataLogUnavailable(f"The topic {settings.topic} was made, but the cluster does not show it yet.")


def _require_usable(topic: KafkaTopic, settings: KafkaLogSettings) -> LogId:
    if topic.topic_id is None:
        raise MetadataLogUnavailable(
            f"The topic {settings.topic} has no id, without which a new one of that name could not be told from it: "
            "use a cluster of Kafka 2.8 or later."
        )
    if not topic.may_read or not (topic.may_write or settings.follow):
        missing = "READ" if not topic.may_read else "WRITE"
        raise MetadataLogUnavailable(
            f"Kafka at {settings.bootstrap} does not allow {missing} on the topic {settings.topic}: grant it by an ACL."
        )
    if topic.partition_count != settings.partitions:
        _logger.warning(
            "The topic %s HAS %d PARTITIONS, which wins over the %d configured: correct the configuration",
            settings.topic,
            topic.partition_count,
            settings.partitions,
        )
    return topic.topic_id
