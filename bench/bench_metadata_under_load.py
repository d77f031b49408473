"""A metadata call while four downloads run, beside an empty echo in a process of its own under the same load.

The downloads are those of another process, from the segment plane that belongs to the metadata plane. One caller calls
either server in turns, one call after another, as in `bench_metadata.py`. Both planes, the load and the caller share
the processors: what the planes being two processes is worth is that a lookup waits no longer than an empty call.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import AbstractContextManager, AsyncExitStack
from pathlib import Path

import grpc.aio
import uvloop

from bench_metadata import METADATA, METHODS, TIMEOUT_S, Call, Partition, Side, fill
from echo_server import SERVICE as ECHO
from processes import Server, peer, plane
from report import Figure, compared, show
from tiergate_server.supervisor.allocator import with_allocator_settings

METHOD = "FindSegment"


def figures(subject: str, tiergate: Side, echo: Side) -> list[Figure]:
    return [
        compared(subject, "p99 ms", "lower", tiergate=tiergate.p99_ms, peer=echo.p99_ms),
        compared(subject, "p50 ms", "lower", tiergate=tiergate.p50_ms, peer=echo.p50_ms),
        compared(subject, "calls/s", "higher", tiergate=tiergate.calls_per_second, peer=echo.calls_per_second),
    ]


async def bench(directory: Path, *, downloads: int, rounds: int, seconds: float) -> list[Figure]:
    partition = Partition()
    async with AsyncExitStack() as stack:
        metadata = stack.enter_context(plane("metadata", directory / "metadata"))
        segments = stack.enter_context(plane("segments", directory / "segments"))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(metadata.address))
        real: dict[str, Call] = {name: channel.unary_unary(f"/{METADATA}/{name}") for name in METHODS}
        await fill(partition, real["AddSegment"], real["UpdateSegment"])
        requests = partition.finds()
        answer = await real[METHOD](next(requests), timeout=TIMEOUT_S)
        echo = stack.enter_context(
            peer("echo_server.py", f"{METHOD}={len(answer)}", log=directory / "echo.log", environment=os.environ)
        )
        echo_channel = await stack.enter_async_context(grpc.aio.insecure_channel(echo.address))
        ours, theirs = Side(metadata, real[METHOD]), Side(echo, echo_channel.unary_unary(f"/{ECHO}/{METHOD}"))
        with load(segments, directory, downloads=downloads):
            for number in range(rounds):
                for side in (ours, theirs) if number % 2 else (theirs, ours):
                    await side.run(requests, callers=1, seconds=seconds)
        return figures(f"{METHOD}, {downloads} downloads", ours, theirs)


def load(segments: Server, directory: Path, *, downloads: int) -> AbstractContextManager[Server]:
    return peer(
        "download_load.py",
        segments.address,
        f"--downloads={downloads}",
        log=directory / "load.log",
        environment=with_allocator_settings(os.environ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--downloads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round, of each side")
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = uvloop.run(
            bench(Path(directory), downloads=arguments.downloads, rounds=arguments.rounds, seconds=arguments.seconds)
        )
    show(
        f"metadata calls beside an empty echo while {arguments.downloads} downloads run, {arguments.rounds} rounds",
        found,
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
