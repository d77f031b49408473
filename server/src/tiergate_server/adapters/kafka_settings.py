"""What a user says about the metadata topic, and the settings of each Kafka client that follow from it.

Names and values are librdkafka's. Whether they are good is librdkafka's business, which refuses what it does not know.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

_logger = logging.getLogger(__name__)

_ALIASES: Mapping[str, str] = {
    "delivery.timeout.ms": "message.timeout.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
_DEFAULTS: Mapping[str, str] = {
    "log_level": "2",  # connection trouble is reported by callbacks, where it can be said once
    "reconnect.backoff.max.ms": "1000",
    "socket.connection.setup.timeout.ms": "10000",
    "socket.keepalive.enable": "true",
    "socket.nagle.disable": "true",
}
# A deleted topic must not come back with the broker's defaults.
_FIXED: Mapping[str, str] = {"allow.auto.create.topics": "false"}
_PRODUCER_DEFAULTS: Mapping[str, str] = {
    "linger.ms": "0",
    "message.max.bytes": "16777216",  # the broker's own limit decides
    "message.timeout.ms": "30000",
}
_PRODUCER_FIXED: Mapping[str, str] = {
    "acks": "all",
    "enable.idempotence": "true",
    # With more, records can be reported as delivered that are not in the log: a leader without state of the producer
    # (a topic just made, a leader just changed) takes any sequence number as the first, so the second request may
    # succeed after the first was refused, and librdkafka then counts the first as done (confluent-kafka-go #921).
    "max.in.flight.requests.per.connection": "1",
}
_CONSUMER_DEFAULTS: Mapping[str, str] = {
    # A partition that is added waits for the fetch that is under way.
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "5",
    "fetch.error.backoff.ms": "200",
    "queued.max.messages.kbytes": "16384",
}
_CONSUMER_FIXED: Mapping[str, str] = {
    "auto.offset.reset": "error",  # a position that is gone must be told, never moved
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "isolation.level": "read_uncommitted",
}


@dataclass(frozen=True, slots=True)
class KafkaLogSettings:
    """`client` is passed to every client as it is, except for what the log itself depends on."""

    bootstrap: str
    topic: str = "__remote_log_metadata"
    partitions: int = 50
    replication: int = 3
    client_id: str = "tiergate"
    client: Mapping[str, str] = field(default_factory=dict)
    follow: bool = False
    """Only read: the topic belongs to the brokers of a cluster that keeps its own metadata in it."""

    def admin(self) -> dict[str, str]:
        return self._merged("admin", {}, {})

    def producer(self) -> dict[str, str]:
        return self._merged("producer", _PRODUCER_DEFAULTS, _PRODUCER_FIXED)

    def consumer(self) -> dict[str, str]:
        # librdkafka wants a name even when nothing is ever joined or committed.
        return self._merged("consumer", _CONSUMER_DEFAULTS, {**_CONSUMER_FIXED, "group.id": f"{self.client_id}-reader"})

    @property
    def delivery_timeout_s(self) -> float:
        return float(self.producer()["message.timeout.ms"]) / 1000

    def warn_of_overruled(self) -> None:
        """Says which of the user's settings cannot be had."""
        fixed = {"bootstrap.servers", "client.id", "group.id", *_FIXED, *_PRODUCER_FIXED, *_CONSUMER_FIXED}
        overruled = sorted(name for name in self.client if _ALIASES.get(name, name) in fixed)
        if overruled:
            _logger.warning(
                "Client settings of the metadata topic that are fixed and ignored: %s", ", ".join(overruled)
            )

    def _merged(self, role: str, defaults: Mapping[str, str], fixed: Mapping[str, str]) -> dict[str, str]:
        given = {_ALIASES.get(name, name): value for name, value in self.client.items()}
        identity = {"bootstrap.servers": self.bootstrap, "client.id": f"{self.client_id}-{role}"}
        return {**_DEFAULTS, **defaults, **given, **identity, **_FIXED, **fixed}
