"""Upload of a segment to S3 through the plane, beside boto3's `upload_file` of the same file; both with their defaults.

boto3 reads the file and sends it to the S3 server; Tiergate's client reads it, sends it to the plane, and that sends it
on. What an upload left is removed before the next one of its side.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import boto3
import botocore.config

from bench_bytes import MIB, Side, new_metadata, take_turns, write_random
from processes import Server, plane
from real_s3 import bucket_in, plane_settings
from report import Figure, compared, show
from tiergate_client import LogSegmentData, Tiergate, connect

KEY = "plain"


def figures(through: Side, plain: Side, size_bytes: int) -> list[Figure]:
    gigabytes = size_bytes / 1e9
    rates = [[gigabytes * 1000 / seconds for seconds in side.seconds] for side in (through, plain)]
    cpu = [
        [(server + client) / gigabytes for server, client in zip(through.server_cpu, through.client_cpu, strict=True)],
        [client / gigabytes for client in plain.client_cpu],
    ]
    return [
        compared("to S3", "MB/s : upload_file", "higher", tiergate=rates[0], peer=rates[1]),
        compared("to S3", "CPU s/GB, client and plane", "lower", tiergate=cpu[0], peer=cpu[1]),
    ]


class Uploads:
    """The two moves of one file."""

    def __init__(self, tiergate: Tiergate, client: Any, bucket: str, log: Path) -> None:
        self._storage = tiergate.storage
        self._client = client
        self._bucket = bucket
        self._log = log
        self._data = LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\n1\n0 0\n")
        self._metadata = new_metadata(log.stat().st_size)

    def through(self) -> None:
        self._storage.copy_segment(self._metadata, self._data)

    def remove_through(self) -> None:
        self._storage.delete_segment(self._metadata)
        self._metadata = new_metadata(self._log.stat().st_size)

    def plain(self) -> None:
        self._client.upload_file(str(self._log), self._bucket, KEY)

    def remove_plain(self) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=KEY)


def bench(directory: Path, *, size_bytes: int, rounds: int) -> list[Figure]:
    log = directory / "log"
    write_random(log, size_bytes)
    with (
        bucket_in(directory / "s3") as bucket,
        plane("segments", directory / "plane", settings=plane_settings(bucket)) as segments,
        connect(segments.address, segments=segments.address) as tiergate,
    ):
        client = boto3.session.Session().client(
            "s3",
            endpoint_url=bucket.endpoint_url,
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )
        uploads = Uploads(tiergate, client, bucket.name, log)
        through = Side(segments, uploads.through, uploads.remove_through)
        plain = Side(Server(bucket.endpoint_url, os.getpid()), uploads.plain, uploads.remove_plain)
        take_turns(through, plain, rounds=rounds)
        return figures(through, plain, size_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(Path(directory), size_bytes=arguments.size_mib * MIB, rounds=arguments.rounds)
    show(
        f"upload to S3: a segment of {arguments.size_mib} MiB beside boto3's upload_file, {arguments.rounds} rounds",
        found,
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
