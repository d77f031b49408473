"""Reads of a segment straight from the store with presigned URLs, beside a plain GET of the same object by boto3.

Both read the same log from the same server and drop it, in pieces of 1 MiB. What the client adds is what is compared:
asking where the segment is, and the checksum of every block before it is handed out. boto3 is told to verify nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import botocore.config

from bench_bytes import new_metadata, write_random
from processes import plane
from real_s3 import bucket_in, plane_settings
from report import Figure, compared, show
from tiergate_client import LogSegmentData, connect

MIB = 1024 * 1024


@dataclass(slots=True)
class Reader:
    """One of those that are compared, and what each round took."""

    read: Callable[[], int]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, size_bytes: int, *, is_counted: bool) -> None:
        cpu, begin = time.process_time(), time.perf_counter()
        read_bytes = self.read()
        seconds = time.perf_counter() - begin
        assert read_bytes == size_bytes
        if is_counted:
            self.seconds.append(seconds)
            self.cpu.append(time.process_time() - cpu)


def figures(subject: str, reader: Reader, plain: Reader, size_bytes: int) -> list[Figure]:
    megabytes = size_bytes / 1e6

    def rate(one: Reader) -> list[float]:
        return [megabytes / seconds for seconds in one.seconds]

    def per_gigabyte(one: Reader) -> list[float]:
        return [cpu / megabytes * 1000 for cpu in one.cpu]

    return [
        compared(subject, "MB/s", "higher", tiergate=rate(reader), peer=rate(plain)),
        compared(subject, "client CPU s/GB", "lower", tiergate=per_gigabyte(reader), peer=per_gigabyte(plain)),
    ]


def plain_client(endpoint_url: str) -> Any:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint_url,
        config=botocore.config.Config(s3={"addressing_style": "path"}, response_checksum_validation="when_required"),
    )


def bench(directory: Path, *, size_bytes: int, rounds: int) -> list[Figure]:
    log = directory / "log"
    write_random(log, size_bytes)
    with (
        bucket_in(directory / "s3") as bucket,
        plane("segments", directory / "plane", settings=plane_settings(bucket)) as segments,
        connect(segments.address, segments=segments.address, access="direct") as direct,
    ):
        metadata = new_metadata(size_bytes)
        data = LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\n1\n0 0\n")
        direct.storage.copy_segment(metadata, data)
        (key,) = (key for key in bucket.stored_keys() if key.endswith("/log"))
        client = plain_client(bucket.endpoint_url)

        def read_plainly() -> int:
            body = client.get_object(Bucket=bucket.name, Key=key)["Body"]
            read_bytes = 0
            while piece := body.read(MIB):
                read_bytes += len(piece)
            return read_bytes

        def read_directly() -> int:
            with direct.storage.fetch_segment(metadata) as stream:
                return sum(len(piece) for piece in stream)

        ours, plain = Reader(read_directly), Reader(read_plainly)
        for number in range(rounds + 1):  # the first round warms up; who begins alternates
            for reader in (ours, plain) if number % 2 else (plain, ours):
                reader.run(size_bytes, is_counted=number > 0)
        return figures("direct read", ours, plain, size_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(Path(directory), size_bytes=arguments.size_mib * MIB, rounds=arguments.rounds)
    show(
        f"direct: a segment of {arguments.size_mib} MiB beside a plain GET of boto3, {arguments.rounds} rounds",
        found,
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
