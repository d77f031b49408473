"""How long a fresh worker process takes to its first rows: from its start to the first Arrow batch of a split.

Each round starts a new interpreter, with the package installed and with the package in a zip, beside one that only
imports what every Arrow worker of Spark needs. The node's cache of compiled code exists: the first round, which is not
counted, makes it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench_decoder import make_log
from processes import plane
from report import Figure, compared, show
from tiergate_client import (
    LeaderEpochs,
    LogSegmentData,
    RemoteLogSegmentMetadata,
    SegmentId,
    TopicId,
    TopicIdPartition,
    connect,
)
from tiergate_client.record_conversions import split_to_bytes
from tiergate_client.records import ReadSplit, SegmentRange
from tiergate_spark.shipping import write_package_zip

RECORDS = 150_000
PEER = "import numpy, pyarrow, time; print(time.time())"
FIRST_ROWS = """
import sys, time
split, target = sys.argv[1:3]
if len(sys.argv) > 3:
    sys.path[:] = [sys.argv[3], *(place for place in sys.path if "tiergate" not in place)]
from pathlib import Path
from tiergate_spark.input_split import InputSplit
from tiergate_spark.options import Service
from tiergate_spark.schema import columns_of, source_schema
from tiergate_spark.worker import read_input_split
task = InputSplit(
    Path(split).read_bytes(), Service(target, target, "service"), columns_of(source_schema(include_headers=False))
)
assert next(read_input_split(task)).num_rows
print(time.time())
"""


def seconds_to_first_rows(program: str, *arguments: str, environment: Mapping[str, str]) -> float:
    begin = time.time()
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, stdout=subprocess.PIPE, env=dict(environment)
    )
    return float(ended.stdout) - begin


def bench(directory: Path, *, rounds: int) -> list[Figure]:
    log = make_log(records=RECORDS, value_bytes=100)
    archive = write_package_zip(directory / "tiergate-spark.zip")
    environment = {**os.environ, "XDG_CACHE_HOME": str(directory / "cache")}
    with (
        plane("segments", directory / "plane") as segments,
        connect(segments.address, segments=segments.address) as tiergate,
    ):
        partition = TopicIdPartition(TopicId.random(), 0, "orders")
        segment = RemoteLogSegmentMetadata(
            partition, SegmentId.random(), 0, RECORDS - 1, LeaderEpochs.of({0: 0}), len(log)
        )
        tiergate.storage.copy_segment(
            segment, LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\n1\n0 0\n")
        )
        split = directory / "split"
        split.write_bytes(split_to_bytes(ReadSplit(partition, (SegmentRange(segment, 0, RECORDS, 0, len(log)),))))
        programs = {
            "imports alone": (PEER,),
            "installed": (FIRST_ROWS, str(split), segments.address),
            "from a zip": (FIRST_ROWS, str(split), segments.address, str(archive)),
        }
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(rounds + 1):
            for name, words in programs.items():
                seconds = seconds_to_first_rows(*words, environment=environment)
                if number:
                    taken[name].append(seconds)
    peer = taken.pop("imports alone")
    return [compared(name, "s to first rows", "lower", tiergate=found, peer=peer) for name, found in taken.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(Path(directory), rounds=arguments.rounds)
    show(f"Spark: first rows of a fresh worker, {arguments.rounds} rounds", found, as_json=arguments.json)


if __name__ == "__main__":
    main()
