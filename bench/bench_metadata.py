"""Metadata calls of the real plane, beside an empty echo behind the same interceptor on the same kind of server.

The callers are coroutines of this process (grpc.aio on uvloop) that send requests made beforehand, with a token as a
client has it, and do not parse the answers: what differs between the two is the server's work alone. AddSegment waits
for the disk; what the disk allows is measured in the same rounds, as appends of a page with fsync, one after another.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeAlias

import grpc.aio
import uvloop

from echo_server import SERVICE as ECHO
from processes import Server, peer, plane
from report import Figure, compared, show
from tiergate.v1 import metadata_pb2 as pb
from tiergate.v1 import types_pb2
from tiergate_client import (
    LeaderEpochs,
    RemoteLogSegmentMetadata,
    SegmentId,
    SegmentState,
    TopicId,
    TopicIdPartition,
)
from tiergate_client.conversions import metadata_to_proto, partition_to_proto, update_to_proto

METADATA = "tiergate.v1.RemoteLogMetadataService"
METHODS = ("AddSegment", "UpdateSegment", "FindSegment")
TIMEOUT_S = 30
SEGMENTS = 1000
OFFSETS_PER_SEGMENT = 1000
PAGE_BYTES = 4096

Call: TypeAlias = Any  # grpc.aio's multicallable has no public type


@dataclass(slots=True)
class Side:
    """One of the two that are compared, and what each round of it found."""

    server: Server
    call: Call
    calls_per_second: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    server_cpu_us: list[float] = field(default_factory=list)

    async def run(self, requests: Iterator[bytes], *, callers: int, seconds: float) -> None:
        latencies: list[float] = []
        cpu, begin = self.server.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(self._calls(requests, begin + seconds, latencies) for _ in range(callers)))
        elapsed = time.perf_counter() - begin
        percentiles = quantiles(latencies, n=100)
        self.calls_per_second.append(len(latencies) / elapsed)
        self.p50_ms.append(percentiles[49] * 1000)
        self.p99_ms.append(percentiles[98] * 1000)
        self.server_cpu_us.append((self.server.cpu_seconds() - cpu) / len(latencies) * 1e6)

    async def _calls(self, requests: Iterator[bytes], end: float, latencies: list[float]) -> None:
        while (begin := time.perf_counter()) < end:
            await self.call(next(requests), timeout=TIMEOUT_S)
            latencies.append(time.perf_counter() - begin)


class Partition:
    """The user partition that the calls are about, and the requests."""

    def __init__(self) -> None:
        self.topic = TopicIdPartition(TopicId.random(), 3, "orders")
        self.token = types_pb2.ConsistencyToken()

    def segment(self, number: int) -> RemoteLogSegmentMetadata:
        start = number * OFFSETS_PER_SEGMENT
        end = start + OFFSETS_PER_SEGMENT - 1
        epochs = LeaderEpochs.of({number // 100: start, number // 100 + 1: start + 500})
        return RemoteLogSegmentMetadata(self.topic, SegmentId.random(), start, end, epochs, 2**30, 1_700_000_000_000, 1)

    def finish(self, segment: RemoteLogSegmentMetadata) -> bytes:
        update = segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1, custom_metadata=bytes(20))
        return update_to_proto(update, self.token).SerializeToString()

    def add(self, segment: RemoteLogSegmentMetadata) -> bytes:
        return pb.AddSegmentRequest(token=self.token, segment=metadata_to_proto(segment)).SerializeToString()

    def adds(self) -> Iterator[bytes]:
        """New segments without end: each is sent once."""
        number = SEGMENTS
        while True:
            yield self.add(self.segment(number))
            number += 1

    def finds(self) -> Iterator[bytes]:
        requests = [
            pb.FindSegmentRequest(
                token=self.token,
                partition=partition_to_proto(self.topic),
                leader_epoch=number // 100,
                offset=number * OFFSETS_PER_SEGMENT + 7,
            ).SerializeToString()
            for number in range(SEGMENTS)
        ]
        return cycle(requests)


async def fill(partition: Partition, add: Call, update: Call) -> None:
    """Adds and finishes the segments that are looked for, and takes the token of the last answer."""

    async def copy(number: int) -> bytes:
        segment = partition.segment(number)
        await add(partition.add(segment), timeout=TIMEOUT_S)
        answer: bytes = await update(partition.finish(segment), timeout=TIMEOUT_S)
        return answer

    answers = await asyncio.gather(*(copy(number) for number in range(SEGMENTS)))
    tokens = [pb.UpdateSegmentResponse.FromString(answer).token for answer in answers]
    partition.token = max(tokens, key=lambda token: max(token.applied_offsets.values()))


def synced_appends_per_second(directory: Path, *, seconds: float) -> float:
    handle = os.open(directory / "appends", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        os.write(handle, bytes(PAGE_BYTES))
        os.fdatasync(handle)
        count += 1
    os.close(handle)
    return count / (time.perf_counter() - begin)


def figures(subject: str, tiergate: Side, echo: Side) -> list[Figure]:
    return [
        compared(subject, "calls/s", "higher", tiergate=tiergate.calls_per_second, peer=echo.calls_per_second),
        compared(subject, "p50 ms", "lower", tiergate=tiergate.p50_ms, peer=echo.p50_ms),
        compared(subject, "p99 ms", "lower", tiergate=tiergate.p99_ms, peer=echo.p99_ms),
        compared(subject, "server CPU µs", "lower", tiergate=tiergate.server_cpu_us, peer=echo.server_cpu_us),
    ]


async def bench(directory: Path, *, rounds: int, seconds: float) -> list[Figure]:
    found: list[Figure] = []
    partition = Partition()
    async with AsyncExitStack() as stack:
        metadata = stack.enter_context(plane("metadata", directory / "plane"))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(metadata.address))
        real: dict[str, Call] = {name: channel.unary_unary(f"/{METADATA}/{name}") for name in METHODS}
        await fill(partition, real["AddSegment"], real["UpdateSegment"])
        requests = {"FindSegment": partition.finds(), "AddSegment": partition.adds()}
        sizes = {name: len(await real[name](next(those), timeout=TIMEOUT_S)) for name, those in requests.items()}
        answers = [f"{name}={size}" for name, size in sizes.items()]
        echo = stack.enter_context(peer("echo_server.py", *answers, log=directory / "echo.log", environment=os.environ))
        echo_channel = await stack.enter_async_context(grpc.aio.insecure_channel(echo.address))
        for (name, those), callers in product(requests.items(), (1, 32)):
            ours, theirs = Side(metadata, real[name]), Side(echo, echo_channel.unary_unary(f"/{ECHO}/{name}"))
            appends = await take_turns(ours, theirs, those, directory, callers=callers, rounds=rounds, seconds=seconds)
            subject = f"{name} x{callers}"
            found += figures(subject, ours, theirs)
            if name == "AddSegment":
                rate = ours.calls_per_second
                found.append(compared(subject, "calls/s : fsyncs/s", "higher", tiergate=rate, peer=appends))
        memory = [[server.peak_resident_bytes() / 2**20] for server in (metadata, echo)]
        found.append(compared("server", "peak memory MiB", "lower", tiergate=memory[0], peer=memory[1]))
    return found


async def take_turns(
    tiergate: Side,
    echo: Side,
    requests: Iterator[bytes],
    directory: Path,
    *,
    callers: int,
    rounds: int,
    seconds: float,
) -> list[float]:
    """Runs both in every round, which one begins alternates; answers what the disk did meanwhile."""
    appends = []
    for number in range(rounds):
        for side in (tiergate, echo) if number % 2 else (echo, tiergate):
            await side.run(requests, callers=callers, seconds=seconds)
        appends.append(await asyncio.to_thread(synced_appends_per_second, directory, seconds=seconds / 4))
    return appends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round, of each side")
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = uvloop.run(bench(Path(directory), rounds=arguments.rounds, seconds=arguments.seconds))
    show(f"metadata calls beside an empty echo, {arguments.rounds} rounds", found, as_json=arguments.json)


if __name__ == "__main__":
    main()
