"""Reads of a damaged segment, each with what it may give: Kafka's records of the batches before the first wrong one.

A read that gave something else is kept in a file, and is done again by

    cd tests && ../.venv/bin/python -m support.damaged_reads FILE

The rule of `read_split`. A batch is given when its bytes are those that its checksum covers, its offsets are within the
segment's, and the batch behind it begins behind them. The first that is not so is refused, and none behind it is given.
Hence nobody can tell, and what is given is as expected all the same:

- another leader epoch, which no record shows;
- another base offset that leaves the batch within a hole, such as compaction makes, or a batch that is gone altogether:
  a hole is no defect;
- a log that ends with a whole batch, if the metadata say that it is so long;
- a cut batch behind the segment's last offset, which Kafka passes over as well, whatever its bytes once were.

`decode_batches` has bytes alone, and no offsets to compare those of a batch with.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from support.byte_damage import Damage, damaged
from support.known_segments import SCHEMA, KnownSegment, SeenBatch, base_offset_in, is_cut_batch
from support.log_in_memory import LogsInMemory, whole_split
from support.segments import make_metadata
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import ALL_COLUMNS, decode_batches, read_split
from tiergate_client.records.engines import EngineName

_ENGINES: Final[tuple[EngineName, ...]] = ("numba", "numba", "numba", "numba", "numpy")
_CHUNK_BYTES: Final = (1, *[500, 5000] * 2, *[1 << 20] * 5)


@dataclass(frozen=True, slots=True)
class DamagedRead:
    """One damage, and how it is read."""

    segment: KnownSegment
    damage: Damage
    engine: EngineName
    chunk_bytes: int
    piece_bytes: int
    is_committed: bool
    is_whole: bool

    @classmethod
    def random(cls, segment: KnownSegment, numbers: random.Random) -> DamagedRead:
        return cls(
            segment=segment,
            damage=damaged(segment, numbers),
            engine=numbers.choice(_ENGINES),
            chunk_bytes=numbers.choice(_CHUNK_BYTES),
            piece_bytes=numbers.choice([100, 3000, 1 << 20]),
            is_committed=numbers.random() < 0.5,
            is_whole=numbers.random() < 0.5,
        )

    @classmethod
    def plain(cls, segment: KnownSegment, content: bytes) -> DamagedRead:
        """Of these bytes, all at once."""
        damage = Damage(content, len(content), "as given")
        return cls(segment, damage, "numba", 1 << 20, 1 << 20, is_committed=True, is_whole=True)

    def check(self) -> str:
        """Raises AssertionError; says how `read_split` ended."""
        self.check_decode_batches()
        return self.check_read_split()

    def check_read_split(self) -> str:
        segment, content = self.segment, self.damage.content
        metadata = make_metadata(
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            epochs={0: segment.start_offset},
            segment_size_bytes=self.damage.claimed_bytes,
        )
        aborted = segment.aborted if self.is_committed else ()
        logs = LogsInMemory({metadata: content}, piece_bytes=self.piece_bytes)
        rows, error = _read(
            read_split(
                whole_split(metadata, *aborted),
                logs.storage,
                columns=ALL_COLUMNS,
                chunk_bytes=self.chunk_bytes,
                engine_name=self.engine,
            )
        )
        assert not logs.held_streams
        position = None if error is None else _position(error, str(metadata.segment_id))
        readable = content[: self.damage.claimed_bytes]
        seen, end = segment.batches_in(readable)
        allowed = self._allowed_positions(seen, end, readable[end:])
        assert position in allowed, f"ended at {position}, not at one of {allowed}"
        given = [one for one in seen if position is None or one.position < position]
        assert rows.equals(segment.rows_of(one for one in given if not one.is_aborted(aborted)))
        if position is None and end == len(segment.log) and not segment.has_holes:
            assert rows.equals(segment.rows_of(one for one in segment.untouched if not one.is_aborted(aborted)))
        return self._kind(given, position)

    def check_decode_batches(self) -> None:
        content = self.damage.content
        rows, error = _read(
            decode_batches(
                content,
                columns=ALL_COLUMNS,
                segment="the-segment",
                base_position=1000,
                is_whole=self.is_whole,
                group_bytes=self.chunk_bytes,
                engine_name=self.engine,
            )
        )
        seen, end = self.segment.batches_in(content)
        is_refused = end < len(content) and (self.is_whole or not is_cut_batch(content[end:]))
        position = None if error is None else _position(error, "the-segment")
        assert position == (end + 1000 if is_refused else None)
        assert rows.equals(self.segment.rows_of(seen))

    def _allowed_positions(self, seen: Sequence[SeenBatch], end: int, rest: bytes) -> set[int | None]:
        """None stands for a read that comes to its end. `rest` is what follows those that were seen."""
        segment = self.segment
        for batch, following in pairwise([*seen, None]):
            assert batch is not None
            is_inside = segment.start_offset <= batch.base_offset and batch.last_offset <= segment.end_offset
            if not is_inside or (following is not None and following.base_offset <= batch.last_offset):
                return {batch.position}
        if end == self.damage.claimed_bytes:
            return {None}
        is_all_there = bool(seen) and seen[-1].last_offset == segment.end_offset
        allowed: set[int | None] = {None if is_all_there and is_cut_batch(rest) else end}
        # What is no sound batch may contradict the one before it, if it is taken for one.
        base_offset = base_offset_in(rest)
        if seen and base_offset is not None and base_offset <= seen[-1].last_offset:
            allowed.add(seen[-1].position)
        return allowed

    def _kind(self, given: Sequence[SeenBatch], position: int | None) -> str:
        if any(batch.has_moved for batch in given):
            assert self.segment.has_holes or len(given) < len(self.segment.batches)
            return "moved in a hole"
        if position is not None:
            return "refused"
        return "all" if [one.known for one in given] == list(self.segment.batches) else "batches are gone"

    def keep(self, directory: Path) -> Path:
        kept = directory / "damaged-read.pickle"
        kept.write_bytes(pickle.dumps(self))
        return kept


def _read(batches: Iterator[Any]) -> tuple[Any, CorruptBatch | None]:
    found = []
    error = None
    try:
        for batch in batches:
            batch.validate(full=True)
            found.append(batch)
    except CorruptBatch as refused:
        error = refused
    return pa.Table.from_batches(found, schema=SCHEMA), error


def _position(error: CorruptBatch, segment: str) -> int:
    position = int(error.details["position"])
    assert error.reason == "CORRUPT_BATCH"
    assert error.details["segment"] == segment
    assert f"position {position} of segment {segment}" in error.message
    return position


if __name__ == "__main__":
    read: DamagedRead = pickle.loads(Path(sys.argv[1]).read_bytes())  # noqa: S301 - made by `keep`
    print(f"{read.segment.name}: {read.damage.story}")
    print(read.check())
