"""The metadata at scale: memory, replay, restore and lookups with a million segments, each beside its peer.

- Memory and applying: beside Kafka's own cache in a JVM, fed with the same events.
- Replay from a real topic: beside a bare consumer of the same settings that only reads the bytes.
- Restore from a snapshot: beside the replay of the same state.
- FindSegment: beside an empty echo through the same interceptor; at many segments beside few; FindSegments beside
  single calls.

Everything that is measured runs in a process of its own. `bench_metadata.py` says how the calls are made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import grpc.aio
import uvloop

from bench_metadata import METADATA, TIMEOUT_S, Call, Side
from echo_server import SERVICE as ECHO
from processes import Server, peer, plane
from real_kafka import kafka_cache, topic_of
from report import Figure, compared, show
from scale_events import EVENTS_PER_SEGMENT, questions, write_events
from tiergate.v1 import metadata_pb2 as pb
from tiergate_client.conversions import partition_to_proto, question_to_proto

_WORKER = Path(__file__).with_name("metadata_worker.py")
_QUESTIONS_PER_CALL = 1000
_SINGLE_QUESTIONS = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    segments: int
    few_segments: int
    topic_events: int
    rounds: int
    seconds: float


def worker(*arguments: str) -> Mapping[str, float]:
    command = [sys.executable, str(_WORKER), *arguments]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(finished.stdout)
    return measured


def bench_core(events: Path, data_directory: Path, scratch: Path, *, segments: int) -> list[Figure]:
    """Memory, applying and restoring; leaves a data directory from which a plane starts with all segments."""
    replayed = worker("replay", str(events), str(data_directory))
    restored = worker("restore", str(data_directory))
    jvm = kafka_cache(events, scratch)
    assert replayed["events"] == jvm["events"] == segments * EVENTS_PER_SEGMENT
    heap, resident = [jvm["heap_bytes"] / segments], [jvm["resident_bytes"] / segments]
    ours, again = [replayed["resident_bytes"] / segments], [restored["resident_bytes"] / segments]
    rate, jvm_rate = ([measured["events"] / measured["seconds"]] for measured in (replayed, jvm))
    seconds = [restored["seconds"]], [replayed["seconds"]]
    return [
        compared("memory", "B/segment : JVM heap", "lower", tiergate=ours, peer=heap),
        compared("memory", "B/segment : JVM resident", "lower", tiergate=ours, peer=resident),
        compared("memory", "B/segment restored : JVM heap", "lower", tiergate=again, peer=heap),
        compared("apply", "events/s : JVM", "higher", tiergate=rate, peer=jvm_rate),
        compared("restore", "seconds : replay", "lower", tiergate=seconds[0], peer=seconds[1]),
        Figure("snapshot", "seconds to save", "lower", replayed["save_seconds"]),
        Figure("snapshot", "B/segment in the file", "lower", replayed["snapshot_bytes"] / segments),
    ]


def bench_topic(events: Path, scratch: Path, *, count: int, rounds: int) -> list[Figure]:
    """A replica's replay of the real topic."""
    ours, theirs = [], []
    with topic_of(events, scratch, segments=count // EVENTS_PER_SEGMENT) as bootstrap:
        for _ in range(rounds):
            consumed = worker("consume", bootstrap, str(count))
            followed = worker("follow", bootstrap)
            assert followed["events"] == count, "the replica did not apply every event of the topic"
            theirs.append(consumed["events"] / consumed["seconds"])
            ours.append(followed["events"] / followed["seconds"])
    return [compared("replay", "events/s : bare consumer", "higher", tiergate=ours, peer=theirs)]


@dataclass(frozen=True, slots=True)
class LoadedPlane:
    """A plane that started with so many segments, and requests about them."""

    server: Server
    find_one: Call
    find_many: Call
    single_requests: Sequence[bytes]
    batch_request: bytes


async def bench_lookups(many: Path, few: Path, sizes: Sizes) -> list[Figure]:
    found: list[Figure] = []
    async with AsyncExitStack() as stack:
        large = await loaded_plane(stack, many, segments=sizes.segments)
        small = await loaded_plane(stack, few, segments=sizes.few_segments)
        answer_bytes = len(await large.find_one(large.single_requests[0], timeout=TIMEOUT_S))
        log = many / "echo.log"
        server = stack.enter_context(peer("echo_server.py", f"Find={answer_bytes}", log=log, environment=os.environ))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address))
        for callers in (1, 32):
            echo = Side(server, channel.unary_unary(f"/{ECHO}/Find"))
            found += await compare_lookups(large, small, echo, callers=callers, sizes=sizes)
        grown = (large.server.resident_bytes() - small.server.resident_bytes()) / (sizes.segments - sizes.few_segments)
        found.append(Figure("plane", "B/segment", "lower", grown))
    return found


async def loaded_plane(stack: AsyncExitStack, data_directory: Path, *, segments: int) -> LoadedPlane:
    server = stack.enter_context(plane("metadata", data_directory))
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address))
    asked = questions(segments=segments, count=_SINGLE_QUESTIONS)
    singles = [
        pb.FindSegmentRequest(
            partition=partition_to_proto(question.partition),
            leader_epoch=question.leader_epoch,
            offset=question.offset,
        ).SerializeToString()
        for question in asked
    ]
    many = [question_to_proto(question) for question in asked[:_QUESTIONS_PER_CALL]]
    batch = pb.FindSegmentsRequest(questions=many).SerializeToString()
    find_many: Call = channel.unary_unary(f"/{METADATA}/FindSegments")
    answers = pb.FindSegmentsResponse.FromString(await find_many(batch, timeout=TIMEOUT_S)).answers
    assert all(answer.HasField("segment") for answer in answers), "a segment that is there was not found"
    return LoadedPlane(server, channel.unary_unary(f"/{METADATA}/FindSegment"), find_many, singles, batch)


async def compare_lookups(
    large: LoadedPlane, small: LoadedPlane, echo: Side, *, callers: int, sizes: Sizes
) -> list[Figure]:
    """Runs everyone in every round; who begins alternates."""
    at_many, at_few = Side(large.server, large.find_one), Side(small.server, small.find_one)
    batched = Side(large.server, large.find_many)
    turns = [
        (echo, large.single_requests),
        (at_many, large.single_requests),
        (at_few, small.single_requests),
        (batched, [large.batch_request]),
    ]
    for number in range(sizes.rounds):
        for side, requests in turns if number % 2 else reversed(turns):
            await side.run(cycle(requests), callers=callers, seconds=sizes.seconds)
    rate = at_many.calls_per_second
    lookups = [calls * _QUESTIONS_PER_CALL for calls in batched.calls_per_second]
    one, many = f"FindSegment x{callers}", f"FindSegments x{callers}"
    return [
        compared(one, "calls/s : echo", "higher", tiergate=rate, peer=echo.calls_per_second),
        compared(one, "p50 ms, many : few", "lower", tiergate=at_many.p50_ms, peer=at_few.p50_ms),
        compared(one, "CPU µs, many : few", "lower", tiergate=at_many.server_cpu_us, peer=at_few.server_cpu_us),
        compared(many, "lookups/s : single calls", "higher", tiergate=lookups, peer=rate),
    ]


def bench(directory: Path, sizes: Sizes) -> list[Figure]:
    events, few_events = directory / "events", directory / "few-events"
    write_events(events, segments=sizes.segments)
    write_events(few_events, segments=sizes.few_segments)
    many, few, scratch = (directory / name for name in ("many", "few", "scratch"))
    for data_directory in (many, few, scratch):
        data_directory.mkdir()
    found = bench_core(events, many, scratch, segments=sizes.segments)
    worker("replay", str(few_events), str(few))
    found += bench_topic(events, scratch / "broker", count=sizes.topic_events, rounds=sizes.rounds)
    found += uvloop.run(bench_lookups(many, few, sizes))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=1_000_000)
    parser.add_argument("--few-segments", type=int, default=10_000)
    parser.add_argument("--topic-events", type=int, default=200_000, help="in the real topic; 2,000,000 takes minutes")
    parser.add_argument("--rounds", type=int, default=5, help="of replays and calls; the rest is measured once")
    parser.add_argument("--seconds", type=float, default=1.0, help="of calls in each round, of each side")
    parser.add_argument("--directory", type=Path, help="where the files go, for the time of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.topic_events > arguments.segments * EVENTS_PER_SEGMENT or arguments.few_segments >= arguments.segments:
        parser.error(
            "the events in the topic, and the few segments, are taken from the segments: ask for more of those"
        )
    sizes = Sizes(
        segments=arguments.segments,
        few_segments=arguments.few_segments,
        topic_events=arguments.topic_events,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
    )
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="tiergate-bench-") as directory:
        found = bench(Path(directory), sizes)
    show(f"metadata of {sizes.segments:,} segments, {sizes.rounds} rounds", found, as_json=arguments.json)


if __name__ == "__main__":
    main()
