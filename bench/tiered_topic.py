"""A topic of many records, on a real broker and in the tier on a real S3, both with the same offsets to read.

The active segment of a partition is not in the tier: `ending_offsets` says where both ends of a comparison stop.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from processes import Server, plane
from real_s3 import bucket_in, plane_settings
from tiergate_client import connect

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.kafka_broker import KafkaBroker, running_broker
from support.spark_jars import spark_kafka_jars as kafka_source_jars

__all__ = ["KEY_BYTES", "VALUE_BYTES", "Place", "TieredTopic", "kafka_source_jars", "running_place"]

PARTITIONS = 4
KEY_BYTES = 8
VALUE_BYTES = 100
MIN_SEGMENT_BYTES = 1024 * 1024
# About what a record takes in a log.
STORED_RECORD_BYTES = {"none": 115, "lz4": 80, "zstd": 70}
# Of which the last one is not rolled, and stays behind with a sixth of the records at most.
SEGMENTS = 7
_TIMEOUT_S = 120
# A broker as people run it, not the short-lived one of the tests.
_JVM_OPTIONS = ("-Xmx1g",)
_DISTINCT_VALUES = 1 << 16


@dataclass(frozen=True, slots=True)
class TieredTopic:
    """What both sides of a comparison need to read the same records."""

    name: str
    ending_offsets: str
    """Kafka's JSON."""
    records: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where the topics are."""

    broker: KafkaBroker
    metadata: Server
    segments: Server

    def tiered_topic(self, name: str, *, records: int, codec: str = "none") -> TieredTopic:
        """Writes the records and copies the rolled segments; what is in the active ones is not read."""
        _create(
            self.broker.bootstrap, name, segment_bytes=records * STORED_RECORD_BYTES[codec] // PARTITIONS // SEGMENTS
        )
        _produce(self.broker.bootstrap, name, records=records, codec=codec)
        directories = [self.broker.directory / "data" / f"{name}-{number}" for number in range(PARTITIONS)]
        command = [sys.executable, "-m", "tiergate_server", "--target", self.metadata.address, "put"]
        subprocess.run([*command, *map(str, directories), "-o", "json"], check=True, stdout=subprocess.DEVNULL)
        with connect(self.metadata.address) as tiergate:
            ends = {
                str(one.partition.partition): one.end_offset + 1
                for one in tiergate.metadata.list_partitions(topic=name)
                if one.end_offset is not None
            }
        return TieredTopic(name, json.dumps({name: ends}), sum(ends.values()))


@contextmanager
def running_place(directory: Path) -> Iterator[Place]:
    with (
        running_broker(directory / "kafka", jvm_options=_JVM_OPTIONS, log_retention_ms="-1") as broker,
        bucket_in(directory / "s3") as bucket,
        plane("segments", directory / "plane", settings=plane_settings(bucket)) as segments,
        plane("metadata", directory / "plane", settings={"segments.listen": segments.address}) as metadata,
    ):
        yield Place(broker, metadata, segments)


def _create(bootstrap: str, name: str, *, segment_bytes: int) -> None:
    config = {"segment.bytes": str(max(MIN_SEGMENT_BYTES, segment_bytes)), "retention.ms": "-1"}
    topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it must outlive the call
    admin.create_topics([topic])[name].result(_TIMEOUT_S)


def _produce(bootstrap: str, name: str, *, records: int, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            # As of Java's producer, unless it is told otherwise.
            "linger.ms": "5",
            "batch.size": "16384",
            "queue.buffering.max.messages": "1000000",
            "queue.buffering.max.kbytes": "1000000",
        }
    )
    values = _values()
    for number in range(records):
        key = number.to_bytes(KEY_BYTES, "big")
        while True:
            try:
                producer.produce(name, values[number % _DISTINCT_VALUES], key, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 100_000 == 0:
            producer.poll(0)
    assert producer.flush(_TIMEOUT_S) == 0


def _values() -> list[bytes]:
    """Half of each is text that compresses, half is not."""
    numbers = random.Random(1)
    text = b"an order of the shop in the middle of town, paid."
    return [text + numbers.randbytes(VALUE_BYTES - len(text)) for _ in range(_DISTINCT_VALUES)]
