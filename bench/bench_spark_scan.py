"""Scans of a topic by Spark: `format("tiergate")` from S3 beside `format("kafka")` from the broker, same offsets.

Every scan ends in Spark's `noop` sink, which takes every column of every row. Rounds take turns, and the first ones
only warm up. CPU is that of all processes: Spark's JVM and workers, broker, planes and S3 server. The ceiling is a data
source that hands out ready Arrow batches of the same columns, in as many tasks.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from process_tree import tree_cpu_seconds
from ready_batches import ReadyBatches
from report import Figure, compared, show
from tiered_topic import KEY_BYTES, VALUE_BYTES, Place, TieredTopic, kafka_source_jars, running_place
from tiergate_spark import register

NARROW = "offset LONG, value BINARY"
WARM_UPS = 2
PARTS = ("all", "narrow", "lz4", "zstd", "growth")
TUNED: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true "
    "-Darrow.enable_null_check_for_get=false -XX:+UseParallelGC",
}
DEFAULTS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(slots=True)
class Scan:
    """One way to read, and what each round of it took."""

    frame: Callable[[], DataFrame]
    rows: int
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, *, is_counted: bool) -> None:
        cpu, begin = tree_cpu_seconds(), time.perf_counter()
        self.frame().write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - begin
        if is_counted:
            self.seconds.append(seconds)
            self.cpu.append(tree_cpu_seconds() - cpu)

    @property
    def rate(self) -> list[float]:
        return [self.rows / seconds / 1e6 for seconds in self.seconds]


class Scans:
    """The ways to read one topic in one session."""

    def __init__(self, spark: SparkSession, place: Place, topic: TieredTopic) -> None:
        self._spark = spark
        self._place = place
        self._topic = topic

    def kafka(self, *columns: str) -> Scan:
        options = {"kafka.bootstrap.servers": self._place.broker.bootstrap}
        return Scan(lambda: self._read("kafka", options).select(*columns or "*"), self._topic.records)

    def tiergate(self, schema: str | None = None) -> Scan:
        options = {"target": self._place.metadata.address}
        return Scan(lambda: self._read("tiergate", options, schema), self._topic.records)

    def ready(self, tasks: int) -> Scan:
        reader = self._spark.read.format("ready").options(
            rows=self._topic.records, tasks=tasks, keyBytes=KEY_BYTES, valueBytes=VALUE_BYTES
        )
        return Scan(reader.load, self._topic.records)

    def _read(self, source: str, options: Mapping[str, str], schema: str | None = None) -> DataFrame:
        reader = self._spark.read.format(source).options(
            **options,
            subscribe=self._topic.name,
            startingOffsets="earliest",
            endingOffsets=self._topic.ending_offsets,
        )
        return (reader.schema(schema) if schema else reader).load()


def take_turns(scans: Sequence[Scan], *, rounds: int) -> None:
    """The first rounds warm up, Spark's compiler above all; who begins changes."""
    for number in range(-WARM_UPS, rounds):
        for scan in scans if number % 2 else reversed(scans):
            scan.run(is_counted=number >= 0)


def figures(subject: str, ours: Scan, peer: Scan) -> list[Figure]:
    return [
        compared(subject, "M records/s", "higher", tiergate=ours.rate, peer=peer.rate),
        compared(subject, "CPU s", "lower", tiergate=ours.cpu, peer=peer.cpu),
    ]


def session(settings: Mapping[str, str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # where workers find the ceiling's data source
    builder = SparkSession.builder.master("local[2]").appName("bench")
    jars = ",".join(map(str, kafka_source_jars()))
    for name, value in {**DEFAULTS, "spark.jars": jars, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(ReadyBatches)
    return spark


def bench(directory: Path, *, records: int, rounds: int, parts: Sequence[str], tuned: bool) -> list[Figure]:
    found: list[Figure] = []
    with running_place(directory) as place:
        spark = session(TUNED if tuned else {})
        kind = ", tuned" if tuned else ""
        plain = place.tiered_topic("orders-none", records=records)
        scans = Scans(spark, place, plain)
        if "all" in parts:
            ours, kafka = scans.tiergate(), scans.kafka()
            ceiling = scans.ready(ours.frame().rdd.getNumPartitions())
            take_turns((ours, kafka, ceiling), rounds=rounds)
            found += figures(f"all columns{kind}", ours, kafka)
            found += figures(f"all columns{kind}, beside ready batches", ours, ceiling)
        if "narrow" in parts:
            ours, kafka = scans.tiergate(NARROW), scans.kafka("offset", "value")
            take_turns((ours, kafka), rounds=rounds)
            found += figures(f"offset and value{kind}", ours, kafka)
        for codec in ("lz4", "zstd"):
            if codec in parts:
                compressed = Scans(spark, place, place.tiered_topic(f"orders-{codec}", records=records, codec=codec))
                ours, kafka = compressed.tiergate(), compressed.kafka()
                take_turns((ours, kafka), rounds=rounds)
                found += figures(f"all columns, {codec}{kind}", ours, kafka)
        if "growth" in parts:
            found += growth(spark, place, records=records, rounds=rounds)
        spark.stop()
    return found


def growth(spark: SparkSession, place: Place, *, records: int, rounds: int) -> list[Figure]:
    """Time for 2, 4 and 8 times the data, beside as many times that of an eighth of it."""
    sizes = {
        factor: Scans(spark, place, place.tiered_topic(f"orders-x{factor}", records=records * factor // 8)).tiergate()
        for factor in (1, 2, 4, 8)
    }
    take_turns(list(sizes.values()), rounds=rounds)
    least = sizes[1]
    return [
        compared(
            f"{factor} times the data",
            "s",
            "lower",
            tiergate=scan.seconds,
            peer=[seconds * scan.rows / least.rows for seconds in least.seconds],
        )
        for factor, scan in sizes.items()
        if factor > 1
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--records", type=int, default=10_000_000, help="written; what is not in rolled segments is not read"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--tuned", action="store_true", help="with the documented JVM settings")
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(
            Path(directory),
            records=arguments.records,
            rounds=arguments.rounds,
            parts=arguments.parts,
            tuned=arguments.tuned,
        )
    show(f"Spark: scans of a topic, {arguments.rounds} rounds", found, as_json=arguments.json)


if __name__ == "__main__":
    main()
