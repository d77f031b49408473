"""Download of a segment from S3 through the plane, beside the two halves of it: a plain GET, and a bare gRPC stream.

The plane gets an object and sends it on. So its processor time is compared with the sum of that of boto3's ranged GET,
in a process of its own, and that of a server that streams the same bytes from a file. All of them, the S3 server and
the clients share the processors, so the rates say less; they are beside those of either half.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import grpc

from bench_bytes import MIB, Side, new_metadata, write_over, write_random
from byte_stream_server import SERVICE as BYTE_STREAM
from plain_get_server import SERVICE as PLAIN_GET
from processes import peer, plane
from real_s3 import bucket_in, plane_settings
from report import Figure, compared, show
from tiergate_client import LogSegmentData, connect
from tiergate_server.supervisor.allocator import with_allocator_settings


def figures(through: Side, plain: Side, bare: Side, size_bytes: int) -> list[Figure]:
    gigabytes = size_bytes / 1e9

    def rate(side: Side) -> list[float]:
        return [gigabytes * 1000 / seconds for seconds in side.seconds]

    halves = [get + send for get, send in zip(plain.server_cpu, bare.server_cpu, strict=True)]
    mean_cpu = [[sum(each) / len(each) / gigabytes] for each in (through.server_cpu, halves)]
    return [
        compared("from S3", "plane CPU s/GB : GET + stream", "lower", tiergate=mean_cpu[0], peer=mean_cpu[1]),
        compared("from S3", "MB/s : plain GET", "higher", tiergate=rate(through), peer=rate(plain)),
        compared("from S3", "MB/s : bare stream", "higher", tiergate=rate(through), peer=rate(bare)),
    ]


def bench(directory: Path, *, size_bytes: int, rounds: int) -> list[Figure]:
    log, target = directory / "log", directory / "target"
    write_random(log, size_bytes)
    write_random(target, size_bytes)
    with (
        bucket_in(directory / "s3") as bucket,
        plane("segments", directory / "plane", settings=plane_settings(bucket)) as segments,
        connect(segments.address, segments=segments.address, access="service") as tiergate,
        peer(
            "byte_stream_server.py", log=directory / "stream.log", environment=with_allocator_settings(os.environ)
        ) as byte_stream,
        grpc.insecure_channel(byte_stream.address, options=[("grpc.max_receive_message_length", 8 * MIB)]) as channel,
        peer(
            "plain_get_server.py",
            bucket.endpoint_url,
            bucket.name,
            str(size_bytes),
            log=directory / "get.log",
            environment=with_allocator_settings(os.environ),
        ) as getter,
        grpc.insecure_channel(getter.address) as getter_channel,
    ):
        metadata = new_metadata(size_bytes)
        data = LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\n1\n0 0\n")
        tiergate.storage.copy_segment(metadata, data)
        (key,) = (key for key in bucket.stored_keys() if key.endswith("/log"))
        get: Any = getter_channel.unary_unary(f"/{PLAIN_GET}/Get")
        send: Any = channel.unary_stream(f"/{BYTE_STREAM}/Send")

        def download() -> None:
            with tiergate.storage.fetch_segment(metadata) as stream:
                write_over(target, stream)

        def get_plainly() -> None:
            assert int(get(key.encode())) == size_bytes

        def download_bare() -> None:
            write_over(target, send(str(log).encode()))

        through, plain = Side(segments, download), Side(getter, get_plainly)
        bare = Side(byte_stream, download_bare)
        take_turns([through, plain, bare], rounds=rounds)
        return figures(through, plain, bare, size_bytes)


def take_turns(sides: list[Side], *, rounds: int) -> None:
    """Each begins a round as often as the others; the first round warms up and is not counted."""
    for number in range(rounds + 1):
        first = number % len(sides)
        for side in sides[first:] + sides[:first]:
            side.run(is_counted=number > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(Path(directory), size_bytes=arguments.size_mib * MIB, rounds=arguments.rounds)
    show(
        f"download from S3: a segment of {arguments.size_mib} MiB through the plane, {arguments.rounds} rounds",
        found,
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
