"""A sample partition to try Tiergate with: the orders of a small shop, the same ones for the same name and seed."""

from __future__ import annotations

import json
import random
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiergate_client.ids import TopicId
from tiergate_client.values import TopicIdPartition
from tiergate_server.kafka_files.partition_writer import PartitionWriter
from tiergate_server.kafka_files.record_batches import Record

SMALLEST_SEGMENT_BYTES = 16 * 1024
LARGEST_SEGMENT_BYTES = 1024 * 1024 * 1024

_FIRST_TIMESTAMP_MS = 1_700_000_000_000
_SECOND_EPOCH = 2  # elections that nobody wins skip a number
_ABORTING_PRODUCER = 9000
_COMMITTING_PRODUCER = 9001
_ITEMS = ("teapot", "kettle", "saucer", "strainer", "samovar", "spoon", "cosy", "tray")


@dataclass(frozen=True, slots=True)
class SamplePartition:
    """What was written, and where."""

    directory: Path
    partition: TopicIdPartition
    rolled_segment_count: int
    end_offset: int


def write_sample(
    parent: Path, *, topic: str = "orders", segments: int = 4, segment_bytes: int = 1024 * 1024, seed: int = 0
) -> SamplePartition:
    """Writes `<parent>/<topic>-0`: whole or not at all. It must not exist."""
    # The name is part of the seed, since two topics never share an id.
    shop = _Shop(random.Random(f"{topic} {seed}"))  # noqa: S311 - repeatable on purpose
    partition = TopicIdPartition(shop.topic_id(), 0, topic)
    directory = parent / f"{topic}-0"
    if directory.exists():
        raise FileExistsError(f"{directory} exists already; name another directory or remove it first")
    unfinished = parent / f".{topic}-0.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    writer = PartitionWriter(unfinished, topic_id=partition.topic_id, segment_bytes=segment_bytes)
    _write_orders(writer, shop, segments)
    writer.close()
    unfinished.rename(directory)
    return SamplePartition(directory, partition, writer.rolled_segment_count, writer.next_offset - 1)


def _write_orders(writer: PartitionWriter, shop: _Shop, segments: int) -> None:
    """Ends in the middle of the active segment."""
    turns = _turns(writer, shop, segments)
    open_transactions: set[int] = set()
    while writer.written_segments < segments + 0.5:
        while turns and writer.written_segments >= turns[0][0]:
            turns.popleft()[1](open_transactions)
        for producer_id in sorted(open_transactions):
            writer.append_in_transaction(shop.orders(), producer_id=producer_id)
        writer.append(shop.orders())


def _turns(writer: PartitionWriter, shop: _Shop, segments: int) -> deque[tuple[float, Callable[[set[int]], None]]]:
    """The turns of the story and when they come: the first transaction begins one segment before its abort marker."""

    def end(producer_id: int, *, commit: bool) -> Callable[[set[int]], None]:
        def turn(open_transactions: set[int]) -> None:
            open_transactions.discard(producer_id)
            writer.end_transaction(producer_id, commit=commit, timestamp_ms=shop.next_timestamp_ms())

        return turn

    return deque(
        [
            (segments * 0.40, lambda _: writer.begin_epoch(_SECOND_EPOCH)),
            (segments * 0.45, lambda opened: opened.add(_ABORTING_PRODUCER)),
            (segments * 0.50, lambda opened: opened.add(_COMMITTING_PRODUCER)),
            (segments * 0.55, end(_ABORTING_PRODUCER, commit=False)),
            (segments * 0.65, end(_COMMITTING_PRODUCER, commit=True)),
        ]
    )


class _Shop:
    """Makes up orders, from the given source of randomness alone."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._now_ms = _FIRST_TIMESTAMP_MS
        self._order = 0

    def topic_id(self) -> TopicId:
        while str(candidate := TopicId(self._random.randbytes(16))).startswith("-"):
            pass
        return candidate

    def next_timestamp_ms(self) -> int:
        self._now_ms += self._random.randint(1, 2000)
        return self._now_ms

    def orders(self) -> list[Record]:
        return [self._record() for _ in range(self._random.randint(1, 6))]

    def _record(self) -> Record:
        self._order += 1
        customer = self._random.randint(1, 500)
        # Some records have no key, some are tombstones, and producers' clocks do not agree.
        key = None if self._random.random() < 0.05 else f"customer-{customer}".encode("ascii")
        value = None if key and self._random.random() < 0.03 else self._value(customer)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if self._random.random() < 0.2:
            headers = (("trace-id", self._random.randbytes(8)), ("tenant", None))
        return Record(self.next_timestamp_ms() - self._random.randint(0, 5000), key, value, headers)

    def _value(self, customer: int) -> bytes:
        order = {
            "order": self._order,
            "customer": customer,
            "item": self._random.choice(_ITEMS),
            "amount_cents": self._random.randint(100, 20_000),
            "note": "x" * self._random.randint(0, 200),
        }
        return json.dumps(order, separators=(",", ":")).encode("ascii")
