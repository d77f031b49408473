"""Downloads of a segment while a segment plane decodes records for another client, beside downloads alone.

`record_load.py`, a process of its own, reads records as fast as they come. When the plane that it reads from is the one
of the downloads, it takes processors and whatever holds the plane's threads from each other; when it is another plane,
it takes the processors alone: that is the fair peer on a machine whose processors are all busy. Third, the same
download while nobody reads records.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench_bytes import MIB, new_metadata, write_random
from bench_decoder import make_log
from processes import Server, peer, plane
from report import Figure, compared, show
from tiergate_client import (
    LeaderEpochs,
    LogSegmentData,
    RemoteLogSegmentMetadata,
    SegmentState,
    Tiergate,
    TopicId,
    connect,
)

LEADER_EPOCHS = b"0\n1\n0 0\n"


@dataclass(slots=True)
class Downloads:
    """Megabytes per second of each round, and of the records that were read meanwhile."""

    bytes_rates: list[float] = field(default_factory=list)
    record_rates: list[float] = field(default_factory=list)


def tier_records(tiergate: Tiergate, *, records: int, value_bytes: int) -> RemoteLogSegmentMetadata:
    """A topic of one finished segment."""
    log = make_log(records=records, value_bytes=value_bytes)
    metadata = replace(
        new_metadata(len(log)), start_offset=0, end_offset=records - 1, segment_leader_epochs=LeaderEpochs.of({0: 0})
    )
    tiergate.metadata.add_segment(metadata)
    custom = tiergate.storage.copy_segment(metadata, LogSegmentData(log, b"", b"", leader_epoch=LEADER_EPOCHS))
    finished = metadata.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1, custom_metadata=custom)
    tiergate.metadata.update_segment(finished)
    return metadata.updated_by(finished)


def store_bytes(tiergate: Tiergate, directory: Path, *, size_bytes: int) -> RemoteLogSegmentMetadata:
    metadata = new_metadata(size_bytes)
    log = directory / "log"
    write_random(log, size_bytes)
    tiergate.storage.copy_segment(metadata, LogSegmentData(log, b"", b"", leader_epoch=LEADER_EPOCHS))
    return metadata


def download_rate(tiergate: Tiergate, metadata: RemoteLogSegmentMetadata, *, seconds: float) -> float:
    """Over and over for so long; MB/s."""
    received, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        with tiergate.storage.fetch_segment(metadata) as stream:
            received += sum(len(piece) for piece in stream)
    return received / 1e6 / (time.perf_counter() - begin)


@contextmanager
def reading(segments: Server, directory: Path, *, topic_id: TopicId, rates: list[float]) -> Iterator[None]:
    log = directory / "load.log"
    with peer("record_load.py", segments.address, f"--topic-id={topic_id}", log=log, environment=os.environ):
        yield
    rates.append(json.loads(log.read_text().splitlines()[-1])["bytes_per_second"] / 1e6)


def bench(directory: Path, *, rounds: int, seconds: float, records: int, size_bytes: int) -> list[Figure]:
    with ExitStack() as stack:
        metadata_plane = stack.enter_context(plane("metadata", directory / "metadata"))
        settings = {"segments.metadata_target": metadata_plane.address}
        planes = [
            stack.enter_context(plane("segments", directory / name, settings=settings)) for name in ("first", "second")
        ]
        clients = [
            stack.enter_context(connect(metadata_plane.address, segments=segments.address)) for segments in planes
        ]
        downloaded = store_bytes(clients[0], directory, size_bytes=size_bytes)
        topic_ids = [tier_records(one, records=records, value_bytes=84).partition.topic_id for one in clients]
        same, other, alone = Downloads(), Downloads(), Downloads()
        for number in range(rounds + 1):  # the first round warms up
            for side, index in ((same, 0), (other, 1)) if number % 2 else ((other, 1), (same, 0)):
                counted = side if number else Downloads()
                with reading(planes[index], directory, topic_id=topic_ids[index], rates=counted.record_rates):
                    counted.bytes_rates.append(download_rate(clients[0], downloaded, seconds=seconds))
            counted = alone if number else Downloads()
            counted.bytes_rates.append(download_rate(clients[0], downloaded, seconds=seconds))
    return [
        compared(
            "download",
            "MB/s, peer: other plane",
            "higher",
            tiergate=same.bytes_rates,
            peer=other.bytes_rates,
        ),
        compared(
            "download",
            "MB/s, peer: alone",
            "higher",
            tiergate=same.bytes_rates,
            peer=alone.bytes_rates,
        ),
        compared(
            "records",
            "MB/s, peer: other plane",
            "higher",
            tiergate=same.record_rates,
            peer=other.record_rates,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round, of each side")
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--size-mib", type=int, default=256, help="of the segment that is downloaded")
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(
            Path(directory),
            rounds=arguments.rounds,
            seconds=arguments.seconds,
            records=arguments.records,
            size_bytes=arguments.size_mib * MIB,
        )
    show(f"downloads while records are read, {arguments.rounds} rounds", found, as_json=arguments.json)


if __name__ == "__main__":
    main()
