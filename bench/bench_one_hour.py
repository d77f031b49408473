"""Bytes that Spark reads for one hour of a topic's history, beside the bytes of the segments that hold the hour.

The history is one partition with a segment for every hour, read through the service, whose counter tells what it sent:
what was planned, and what it took to find out which offsets the hour has. The length of the history does not matter to
either, which is why some days stand for a month.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from urllib.request import urlopen

from bench_spark_scan import session
from processes import plane
from report import Figure, show
from tiergate_client import TopicId, TopicIdPartition, connect
from tiergate_client.clock import system_clock
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.local_log import PartitionDirectory, names, partition_metadata
from tiergate_client.segment_lifecycle import copy_segment
from tiergate_server.kafka_files.record_batches import Record, encode_batch
from tiergate_server.kafka_files.segment_writer import SegmentWriter

HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
BATCHES_PER_HOUR = 120
RECORDS_PER_BATCH = 16
TOPIC = "hours"


def write_partition(directory: Path, *, hours: int, hour_bytes: int) -> Path:
    """A segment for each hour, and one more, which is the active one."""
    partition = TopicIdPartition(TopicId.random(), 0, TOPIC)
    path = directory / f"{TOPIC}-0"
    path.mkdir()
    (path / names.PARTITION_METADATA).write_bytes(partition_metadata.encode(partition.topic_id))
    (path / names.LEADER_EPOCH_CHECKPOINT).write_bytes(LeaderEpochs.of({0: 0}).to_checkpoint())
    value = random.Random(1).randbytes(hour_bytes // BATCHES_PER_HOUR // RECORDS_PER_BATCH)
    offset = 0
    for hour in range(hours + 1):
        writer = SegmentWriter(path, offset)
        for number in range(BATCHES_PER_HOUR):
            time_ms = BEGIN_MS + hour * HOUR_MS + number * HOUR_MS // BATCHES_PER_HOUR
            records = [Record(time_ms, None, value)] * RECORDS_PER_BATCH
            writer.append(encode_batch(records, base_offset=offset, leader_epoch=0))
            offset += RECORDS_PER_BATCH
        writer.finish()
    return path


def sent_bytes(metrics: str) -> float:
    with urlopen(f"http://{metrics}/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("tiergate_segments_sent_bytes_total"))


def bench(directory: Path, *, hours: int, hour_bytes: int, metrics: str) -> list[Figure]:
    path = write_partition(directory, hours=hours, hour_bytes=hour_bytes)
    with (
        plane("segments", directory / "plane", settings={"segments.metrics": metrics}) as segments,
        plane("metadata", directory / "plane", settings={"segments.listen": segments.address}) as metadata,
    ):
        with connect(metadata.address) as tiergate:
            for segment in PartitionDirectory.open(path).rolled_segments():
                copy_segment(
                    tiergate, segment, begun=None, broker_id=-1, clock=system_clock, observe=lambda _: None, warn=print
                )
        spark = session({})
        begin = BEGIN_MS + hours // 2 * HOUR_MS
        hour = spark.read.format("tiergate").options(
            target=metadata.address,
            access="service",
            subscribe=TOPIC,
            startingTimestamp=begin,
            endingTimestamp=begin + HOUR_MS,
        )
        before = sent_bytes(metrics)
        rows = hour.load().count()
        read = sent_bytes(metrics) - before
        spark.stop()
    assert rows == BATCHES_PER_HOUR * RECORDS_PER_BATCH
    size = (path / names.file_name(hours // 2 * rows, names.LOG)).stat().st_size
    return [Figure("one hour", "MB read", "lower", read / 1e6, size / 1e6, read / size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=48)
    parser.add_argument("--hour-mib", type=int, default=32)
    parser.add_argument("--metrics", default="127.0.0.1:17481", help="where the plane tells what it sent")
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(
            Path(directory),
            hours=arguments.hours,
            hour_bytes=arguments.hour_mib * 1024 * 1024,
            metrics=arguments.metrics,
        )
    show(f"Spark: one hour of {arguments.hours}, {arguments.hour_mib} MiB each", found, as_json=arguments.json)


if __name__ == "__main__":
    main()
