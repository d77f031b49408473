"""Leaders change, one of them in an unclean way, and each copies its own log: the tier reads like the last leader's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.corpus_topics import SMALL_SEGMENTS, TRANSACTION_TIMEOUT_MS, CorpusTopics
from support.in_process_tiergate import InProcessTiergate, in_process_tiergate
from support.kafka_broker import KafkaBroker, running_cluster
from support.kafka_jars import KafkaJarsMissing
from support.kafka_oracle import running_oracle
from support.kafka_records import KafkaRecords, Row
from support.kafka_topics import KafkaTopics
from support.tiering import tier_segments
from support.waiting import wait_until
from tiergate_client.records import ALL_COLUMNS
from tiergate_client.records.read_plan import IsolationLevel, plan_read
from tiergate_client.records.split_reading import read_split
from tiergate_client.values import RemoteLogSegmentMetadata

TOPIC = "led"
SETTINGS = {
    "log.retention.ms": "-1",
    "transaction.max.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
}


class Cluster:
    """Node 1 is the controller; the topic is on nodes 2 and 3."""

    def __init__(self, brokers: list[KafkaBroker], records: KafkaRecords) -> None:
        self.brokers = {broker.node_id: broker for broker in brokers}
        self.records = records
        self.topics = KafkaTopics(brokers[0])
        self.writer = CorpusTopics(records, self.topics)

    def directory(self, node_id: int) -> Path:
        return self.brokers[node_id].directory / "data" / f"{TOPIC}-0"

    def wait_for_leader(self, node_id: int) -> None:
        wait_until(lambda: self.topics.leaders(TOPIC)[0] == node_id)

    def wait_for_in_sync(self, count: int) -> None:
        wait_until(lambda: self.topics.in_sync(TOPIC) == count)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    try:
        with (
            running_cluster(tmp_path / "kafka", brokers=3, settings=SETTINGS) as brokers,
            running_oracle(tmp_path) as oracle,
        ):
            yield Cluster(brokers, KafkaRecords(brokers[0], oracle))
    except KafkaJarsMissing as missing:
        pytest.fail(str(missing))


def assert_reads_like_the_leader(tiergate: InProcessTiergate, cluster: Cluster, last: RemoteLogSegmentMetadata) -> None:
    for isolation in IsolationLevel:
        plan = plan_read(tiergate.metadata, tiergate.storage, last.partition, isolation=isolation, split_bytes=5_000)
        assert (plan.start_offset, plan.stop_offset) == (0, last.end_offset + 1)
        rows: list[Row] = []
        for split in plan.splits:
            for batch in read_split(split, tiergate.storage, columns=ALL_COLUMNS):
                rows += batch.to_pylist()
        consumed = cluster.records.consumed(TOPIC, isolation=isolation)
        assert rows == [row for row in consumed if row["offset"] <= last.end_offset]
        assert len(rows) > 100


def test_tier_reads_like_the_last_leader_after_each_change(cluster: Cluster, tmp_path: Path) -> None:
    with in_process_tiergate(tmp_path / "tier") as tiergate:
        config = {**SMALL_SEGMENTS, "unclean.leader.election.enable": "true"}
        cluster.topics.create(TOPIC, replicas=[[2, 3]], config=config)
        cluster.writer.write_life(TOPIC, end="abort")
        cluster.wait_for_in_sync(2)
        cluster.brokers[3].stop()
        cluster.writer.write_life(TOPIC, end="commit")
        of_first = tier_segments(tiergate, cluster.directory(2))
        assert_reads_like_the_leader(tiergate, cluster, of_first[-1])

        cluster.brokers[2].stop()
        cluster.brokers[3].start()
        cluster.wait_for_leader(3)
        cluster.writer.write_life(TOPIC, end="abort")
        of_second = tier_segments(tiergate, cluster.directory(3))
        assert_reads_like_the_leader(tiergate, cluster, of_second[-1])
        assert diverges(of_first, of_second)

        cluster.brokers[2].start()
        cluster.wait_for_in_sync(2)
        cluster.topics.elect_preferred_leaders(TOPIC)
        cluster.wait_for_leader(2)
        cluster.writer.write_life(TOPIC, end="commit")
        of_first_again = tier_segments(tiergate, cluster.directory(2), first=of_second[-1].end_offset + 1)
        assert_reads_like_the_leader(tiergate, cluster, of_first_again[-1])
        assert borders(of_first_again) != borders(of_second)


def diverges(ours: list[RemoteLogSegmentMetadata], theirs: list[RemoteLogSegmentMetadata]) -> bool:
    """Whether an epoch begins below the end of what the other one copied in earlier epochs."""
    newer = next(start for segment in theirs for epoch, start in segment.segment_leader_epochs if epoch > 1)
    return newer < ours[-1].end_offset


def borders(segments: list[RemoteLogSegmentMetadata]) -> list[int]:
    return [segment.start_offset for segment, _ in pairwise([*segments, segments[-1]])]
