"""Topics of a real broker whose rolled segments are also in the tier of real planes, so that both can be compared.

The corpus is built once and then only read. What is compared, and how, is decided by its users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from support.corpus_building import build_corpus, partition_directories
from support.corpus_topics import TRANSACTION_TIMEOUT_MS
from support.kafka_broker import KafkaBroker, running_broker
from support.kafka_oracle import running_oracle
from support.kafka_records import KafkaRecords, Row
from support.planes import running_planes
from support.s3_server import Bucket
from tiergate_client import Tiergate, connect
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.values import TopicIdPartition

CORPUS_TOPICS: Final = (
    "append-time",
    "codecs",
    "compacted",
    "deleted-after",
    "deleted-before",
    "deleted-between",
    "diverged",
    "epochs",
    "open",
    "overlapping",
    "partitions",
    "resegmented",
    "shortened",
    "times",
    "transactions",
    "undecided-abort",
    "undecided-commit",
)


@dataclass(frozen=True, slots=True)
class TieredPartition:
    """A partition of which broker and tier have the same records in [log_start_offset, stop_offset)."""

    partition: TopicIdPartition
    log_start_offset: int
    """The broker's. The tier may hold older records, which a reader is not to see."""
    stable_offset: int
    """Where reading committed data ends, exclusive: the broker's last stable offset as of the tier's end."""
    stop_offset: int
    """The tier's end, exclusive. The broker has more, in its active segment."""

    @property
    def topic(self) -> str:
        return self.partition.topic

    def stop_for(self, isolation: str) -> int:
        return self.stable_offset if isolation == "read_committed" else self.stop_offset


class RecordCorpus:
    """What a test needs of both sides.

    `bootstrap` is the broker, `target` the metadata plane, which tells of the segment plane; `tiergate` is a connection
    to both. `partitions` are all that are in the tier, by topic and number; `CorpusTopics` says what each is for. To
    compare another reader: read the offsets from `log_start_offset` to `stop_for(isolation)` with it, and expect
    `consumed(partition, isolation)`.
    """

    def __init__(
        self, broker: KafkaBroker, records: KafkaRecords, tiergate: Tiergate, target: str, stable: dict[str, int]
    ) -> None:
        """`stable` has the last stable offsets of topics where the broker's is a later one by now."""
        self.bootstrap = broker.bootstrap
        self.target = target
        self.tiergate = tiergate
        self.records = records
        opened = [PartitionDirectory.open(path) for path in partition_directories(broker)]
        self.partitions = tuple(self._tiered(one, stable) for one in opened if one.rolled_bounds)
        self.consumed = cache(self._consumed)
        """What Kafka's consumer is given, up to the tier's end."""

    def of(self, topic: str, *, partition: int = 0) -> TieredPartition:
        return next(one for one in self.of_topic(topic) if one.partition.partition == partition)

    def of_topic(self, topic: str) -> list[TieredPartition]:
        return [one for one in self.partitions if one.topic == topic]

    def _consumed(self, tiered: TieredPartition, isolation: str) -> list[Row]:
        rows = self.records.consumed(tiered.topic, partition=tiered.partition.partition, isolation=isolation)
        return [row for row in rows if row["offset"] < tiered.stop_for(isolation)]

    def _tiered(self, directory: PartitionDirectory, stable: dict[str, int]) -> TieredPartition:
        topic, number = directory.partition.topic, directory.partition.partition
        stop_offset = directory.rolled_bounds[-1][1] + 1
        start, _ = self.records.offset_bounds(topic, partition=number)
        _, stable_now = self.records.offset_bounds(topic, partition=number, isolation="read_committed")
        stable_offset = min(stable.get(topic, stable_now), stop_offset)
        return TieredPartition(directory.partition, start, stable_offset, stop_offset)


@contextmanager
def running_corpus(directory: Path, bucket: Bucket) -> Iterator[RecordCorpus]:
    """The tier is on S3, so that who reads past the service, as Spark does, is compared as well.

    Takes about half a minute. Raises KafkaJarsMissing, which says what to install, when there is no Kafka.
    """
    with ExitStack() as started:
        # The records are of 2023: a broker would delete them when it looks at retention for the first time.
        broker = started.enter_context(
            running_broker(
                directory / "kafka",
                log_cleaner_backoff_ms="100",
                log_retention_ms="-1",
                transaction_max_timeout_ms=TRANSACTION_TIMEOUT_MS,
            )
        )
        records = KafkaRecords(broker, started.enter_context(running_oracle(directory)))
        planes = started.enter_context(running_planes(directory / "planes", **bucket.plane_settings()))
        tiergate = started.enter_context(connect(planes.target))
        stable = build_corpus(broker, records, tiergate)
        yield RecordCorpus(broker, records, tiergate, planes.target, stable)
