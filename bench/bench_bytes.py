"""Upload and download of a segment through the real plane and client, beside a bare gRPC byte stream.

Both move the same file in chunks of 1 MiB between processes of their own on loopback: an upload is on disk (fsync)
when it is answered, a download ends in a file. What Tiergate adds is what is compared: checksums of chunks, blocks
and files, framing, manifest and commit.
"""

from __future__ import annotations

import argparse
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from byte_stream_server import CHUNK_BYTES
from byte_stream_server import SERVICE as BYTE_STREAM
from processes import Server, peer, plane
from report import Figure, compared, show
from tiergate_client import (
    LeaderEpochs,
    LogSegmentData,
    RemoteLogSegmentMetadata,
    SegmentId,
    Tiergate,
    TopicId,
    TopicIdPartition,
    connect,
)
from tiergate_server.supervisor.allocator import with_allocator_settings

MIB = 1024 * 1024


@dataclass(slots=True)
class Side:
    """One of the two that are compared: how it moves the file, and what each round took.

    `prepare` is not timed: it removes what an upload left, so that each one writes to memory that was just freed.
    A virtual machine takes three times as long for pages that it never used before.
    """

    server: Server
    move: Callable[[], None]
    prepare: Callable[[], None] = lambda: None
    seconds: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)
    client_cpu: list[float] = field(default_factory=list)

    def run(self, *, is_counted: bool) -> None:
        self.prepare()
        server_cpu, client_cpu, begin = self.server.cpu_seconds(), time.process_time(), time.perf_counter()
        self.move()
        seconds = time.perf_counter() - begin
        if is_counted:
            self.seconds.append(seconds)
            self.client_cpu.append(time.process_time() - client_cpu)
            self.server_cpu.append(self.server.cpu_seconds() - server_cpu)


def take_turns(tiergate: Side, bare: Side, *, rounds: int) -> None:
    """Which one begins alternates, too; the first round of each warms up and is not counted."""
    for number in range(rounds + 1):
        for side in (tiergate, bare) if number % 2 else (bare, tiergate):
            side.run(is_counted=number > 0)


def figures(subject: str, tiergate: Side, bare: Side, size_bytes: int) -> list[Figure]:
    gigabytes = size_bytes / 1e9

    def rate(side: Side) -> list[float]:
        return [gigabytes * 1000 / seconds for seconds in side.seconds]

    def per_gigabyte(cpu: list[float]) -> list[float]:
        return [sum(cpu) / len(cpu) / gigabytes]  # a mean: the kernel counts a process's time in steps of 10 ms

    return [
        compared(subject, "MB/s", "higher", tiergate=rate(tiergate), peer=rate(bare)),
        compared(
            subject,
            "server CPU s/GB",
            "lower",
            tiergate=per_gigabyte(tiergate.server_cpu),
            peer=per_gigabyte(bare.server_cpu),
        ),
        compared(
            subject,
            "client CPU s/GB",
            "lower",
            tiergate=per_gigabyte(tiergate.client_cpu),
            peer=per_gigabyte(bare.client_cpu),
        ),
    ]


def chunks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def write_over(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        for piece in pieces:
            os.write(handle, piece)
    finally:
        os.close(handle)


def new_metadata(size_bytes: int) -> RemoteLogSegmentMetadata:
    partition = TopicIdPartition(TopicId.random(), 0, "bench")
    return RemoteLogSegmentMetadata(partition, SegmentId.random(), 0, 99, LeaderEpochs.of({0: 0}), size_bytes)


class Transfers:
    """The four moves of one file."""

    def __init__(self, tiergate: Tiergate, channel: grpc.Channel, log: Path, target: Path) -> None:
        self._storage = tiergate.storage
        self._receive: Any = channel.stream_unary(f"/{BYTE_STREAM}/Receive")
        self._send: Any = channel.unary_stream(f"/{BYTE_STREAM}/Send")
        self._log = log
        self._target = target
        self._data = LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\n1\n0 0\n")
        self._metadata = new_metadata(log.stat().st_size)
        self._file = log.with_name("received")

    def upload(self) -> None:
        self._storage.copy_segment(self._metadata, self._data)

    def remove_upload(self) -> None:
        self._storage.delete_segment(self._metadata)
        self._metadata = new_metadata(self._log.stat().st_size)

    def download(self) -> None:
        with self._storage.fetch_segment(self._metadata) as stream:
            write_over(self._target, stream)

    def bare_upload(self) -> None:
        self._receive(chunks_of(self._log), metadata=(("path", str(self._file)),))

    def remove_bare_upload(self) -> None:
        self._file.unlink(missing_ok=True)

    def bare_download(self) -> None:
        write_over(self._target, self._send(str(self._file).encode()))


def bench(directory: Path, *, size_bytes: int, rounds: int) -> list[Figure]:
    log, target = directory / "log", directory / "target"
    write_random(log, size_bytes)
    write_random(target, size_bytes)
    with (
        plane("segments", directory / "plane") as segments,
        peer(
            "byte_stream_server.py",
            log=directory / "peer.log",
            environment=with_allocator_settings(os.environ),
        ) as byte_stream,
        connect(segments.address, segments=segments.address) as tiergate,
        grpc.insecure_channel(byte_stream.address, options=[("grpc.max_receive_message_length", 8 * MIB)]) as channel,
    ):
        transfers = Transfers(tiergate, channel, log, target)
        up = Side(segments, transfers.upload, transfers.remove_upload)
        bare_up = Side(byte_stream, transfers.bare_upload, transfers.remove_bare_upload)
        take_turns(up, bare_up, rounds=rounds)
        down, bare_down = Side(segments, transfers.download), Side(byte_stream, transfers.bare_download)
        take_turns(down, bare_down, rounds=rounds)
        memory = [[server.peak_resident_bytes() / MIB] for server in (segments, byte_stream)]
        return [
            *figures("upload", up, bare_up, size_bytes),
            *figures("download", down, bare_down, size_bytes),
            compared("server", "peak memory MiB", "lower", tiergate=memory[0], peer=memory[1]),
        ]


def write_random(path: Path, size_bytes: int) -> None:
    with path.open("wb") as file:
        for _ in range(size_bytes // MIB):
            file.write(secrets.token_bytes(MIB))


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
        f"bytes: a segment of {arguments.size_mib} MiB beside a bare gRPC byte stream, {arguments.rounds} rounds",
        found,
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
