"""Records that Kafka's own producers write and its own consumer and classes read; the decoder is not known here."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from confluent_kafka import Producer

from support.kafka_broker import KafkaBroker
from support.kafka_oracle import KafkaOracle

Row: TypeAlias = dict[str, Any]
End: TypeAlias = Literal["none", "commit", "abort", "open"]

_TIMEOUT_S = 30.0


class KafkaRecords:
    """Partition 0 of topics of one broker."""

    def __init__(self, broker: KafkaBroker, oracle: KafkaOracle) -> None:
        self._broker = broker
        self._oracle = oracle
        self._open: list[Producer] = []

    def produce_with_java(
        self, topic: str, rows: Sequence[Row], *, end: End = "none", config: Mapping[str, str] | None = None
    ) -> None:
        written = [_texts(row) for row in rows]
        self._oracle.ask("produce_records", topic=topic, records=written, end=end, config=self._config(config or {}))

    def produce_with_librdkafka(
        self, topic: str, rows: Sequence[Row], *, end: End = "none", config: Mapping[str, str] | None = None
    ) -> None:
        producer = Producer({**self._config(config or {}), "linger.ms": "50", "log_level": "2"})
        if end != "none":
            producer.init_transactions(_TIMEOUT_S)
            producer.begin_transaction()
        for row in rows:
            headers = [(header["key"], header["value"]) for header in row["headers"]]
            timestamp = row["timestamp"]
            producer.produce(
                topic, value=row["value"], key=row["key"], partition=0, headers=headers, timestamp=timestamp
            )
        assert producer.flush(_TIMEOUT_S) == 0
        if end == "commit":
            producer.commit_transaction(_TIMEOUT_S)
        elif end == "abort":
            producer.abort_transaction(_TIMEOUT_S)
        elif end == "open":
            self._open.append(producer)

    def consumed(self, topic: str, *, isolation: str = "read_uncommitted") -> list[Row]:
        """What the Java consumer is given, from the beginning to the end that it is told of."""
        config = self._config({"isolation.level": isolation, "enable.auto.commit": "false"})
        return [_bytes(row) for row in self._oracle.ask("consume_records", topic=topic, config=config)]

    def read_by_kafka(self, log: Path) -> list[Row]:
        """What Kafka's classes read from the file, control batches left out."""
        return [_bytes(row) for row in self._oracle.ask("read_records", file=str(log))]

    def logs(self, topic: str) -> list[Path]:
        return sorted((self._broker.directory / "data" / f"{topic}-0").glob("*.log"))

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
