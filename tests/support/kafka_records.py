"""Records that Kafka's own producers write and its own consumer and classes read; the decoder is not known here."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from confluent_kafka import KafkaError, Producer

from support.kafka_broker import KafkaBroker
from support.kafka_oracle import KafkaOracle

Row: TypeAlias = dict[str, Any]
End: TypeAlias = Literal["none", "commit", "abort", "open"]

_ENDS: Final = ("commit", "abort")
_TIMEOUT_S = 30.0


class KafkaRecords:
    """Partitions of topics of one broker: number 0, unless rows or calls name another."""

    def __init__(self, broker: KafkaBroker, oracle: KafkaOracle) -> None:
        self._broker = broker
        self._oracle = oracle
        self._open: dict[str, Producer] = {}

    def produce_with_java(
        self, topic: str, rows: Sequence[Row], *, end: End = "none", config: Mapping[str, str] | None = None
    ) -> None:
        """What the same transactional id left open is gone on with; a transaction that ends is marked in the log."""
        written = [_texts(row) for row in rows]
        self._oracle.ask("produce_records", topic=topic, records=written, end=end, config=self._config(config or {}))
        if end in _ENDS:
            self._await_markers((config or {})["transactional.id"])

    def produce_with_librdkafka(
        self, topic: str, rows: Sequence[Row], *, end: End = "none", config: Mapping[str, str] | None = None
    ) -> None:
        """What the same transactional id left open is gone on with; a transaction that ends is marked in the log."""
        transactional_id = (config or {}).get("transactional.id", "")
        producer = self._open.pop(transactional_id, None)
        if producer is None:
            producer = Producer({**self._config(config or {}), "linger.ms": "50", "log_level": "2"})
            if end != "none":
                producer.init_transactions(_TIMEOUT_S)
                producer.begin_transaction()
        failures: list[KafkaError] = []
        for row in rows:
            producer.produce(
                topic,
                value=row["value"],
                key=row["key"],
                partition=row.get("partition", 0),
                headers=[(header["key"], header["value"]) for header in row["headers"]],
                timestamp=row["timestamp"],
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(_TIMEOUT_S) == 0
        assert failures == []
        if end == "commit":
            producer.commit_transaction(_TIMEOUT_S)
        elif end == "abort":
            producer.abort_transaction(_TIMEOUT_S)
        elif end == "open":
            self._open[transactional_id] = producer
        if end in _ENDS:
            self._await_markers(transactional_id)

    def consumed(self, topic: str, *, partition: int = 0, isolation: str = "read_uncommitted") -> list[Row]:
        """What the Java consumer is given, from the beginning to the end that it is told of."""
        config = self._consumer_config(isolation)
        rows = self._oracle.ask("consume_records", topic=topic, partition=partition, config=config)
        return [_bytes(row) for row in rows]

    def offset_bounds(self, topic: str, *, partition: int = 0, isolation: str = "read_uncommitted") -> tuple[int, int]:
        """Log start and, exclusive, the high watermark or the last stable offset, as the Java consumer is told them."""
        config = self._consumer_config(isolation)
        bounds = self._oracle.ask("offset_bounds", topic=topic, partition=partition, config=config)
        return bounds["start_offset"], bounds["stop_offset"]

    def offsets_for_times(
        self, topic: str, timestamps_ms: Sequence[int], *, partition: int = 0, isolation: str = "read_uncommitted"
    ) -> list[Row | None]:
        """For each time `offset`, `timestamp` and `leader_epoch` of the first record that is as late."""
        found: list[Row | None] = self._oracle.ask(
            "find_offsets",
            topic=topic,
            partition=partition,
            timestamps=list(timestamps_ms),
            config=self._consumer_config(isolation),
        )
        return found

    def read_by_kafka(self, log: Path, *, with_control: bool = False) -> list[Row]:
        """What Kafka's classes read from the file, control batches left out unless told."""
        return [_bytes(row) for row in self._oracle.ask("read_records", file=str(log), with_control=with_control)]

    def logs(self, topic: str) -> list[Path]:
        return sorted(self.directory(topic).glob("*.log"))

    def directory(self, topic: str, *, partition: int = 0) -> Path:
        return self._broker.directory / "data" / f"{topic}-{partition}"

    def _await_markers(self, transactional_id: str) -> None:
        """Else records that are written next may come before them, into a segment of their own."""
        self._oracle.ask("await_markers", transactional_id=transactional_id, config=self._config({}))

    def _consumer_config(self, isolation: str) -> dict[str, str]:
        # A consumer is closed when its last fetch is answered, which waits for records that do not come.
        return self._config({"isolation.level": isolation, "enable.auto.commit": "false", "fetch.max.wait.ms": "5"})

    def _config(self, config: Mapping[str, str]) -> dict[str, str]:
        return {"bootstrap.servers": self._broker.bootstrap, **config}


def _texts(row: Row) -> Row:
    headers = [{"key": header["key"], "value": _text(header["value"])} for header in row["headers"]]
    return {**row, "key": _text(row["key"]), "value": _text(row["value"]), "headers": headers}


def _bytes(row: Row) -> Row:
    headers = [{"key": header["key"], "value": _raw(header["value"])} for header in row["headers"]]
    return {**row, "key": _raw(row["key"]), "value": _raw(row["value"]), "headers": headers}


def _text(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode("ascii")


def _raw(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
