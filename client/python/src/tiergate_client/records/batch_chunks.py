"""The batches of a range of a segment, some megabytes at a time, whole and in order; records are not looked at here.

A batch that is cut is refused, but for one case: at the end of the log, behind all the offsets that are wanted, a rest
is passed over, as Kafka does with what a broker that fell had not written to its end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from tiergate_client.batch_layout import HEADER_BYTES, LENGTH_AT, LENGTH_ENDS_AT, MAGIC_AT
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_headers import ScannedBatches, WalkBatches, scan_batches
from tiergate_client.records.batch_table import BASE_OFFSET
from tiergate_client.records.batch_walking import walk_batches
from tiergate_client.records.defects import BatchDefect, FoundDefect
from tiergate_client.records.read_split import SegmentRange

DEFAULT_CHUNK_BYTES: Final = 2 * 1024 * 1024
MOST_BATCH_BYTES: Final = 256 * 1024 * 1024
"""Twice what the records of one may take when they are decompressed, and far beyond what brokers are set to accept."""
_BASE_OFFSET: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")


def batch_chunks(
    wanted: SegmentRange,
    storage: RemoteStorage,
    *,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    walk: WalkBatches = walk_batches,
    memory: ChunkMemory | None = None,
) -> Iterator[ScannedBatches]:
    """Every batch once, in order. What is given is overwritten when the next one is asked for.

    `walk` is an engine's, where one is at hand; `memory` is for who reads several ranges, one after another. The last
    one may have a defect. Raises FoundDefect where bytes are missing, and what RemoteStorage.fetch_segment raises.
    """
    if not wanted.size_bytes:
        return
    joined = _JoinedBytes(wanted, chunk_bytes, walk, memory or ChunkMemory())
    with storage.fetch_segment(wanted.segment, offset=wanted.start_position, length=wanted.size_bytes) as stream:
        while not joined.is_done and (count := stream.readinto(joined.room)):
            yield from joined.add(count)
    yield from joined.take(is_end=True)
    joined.require_end()


class ChunkMemory:
    """For the bytes of one range at a time. Fresh memory costs as much as to receive them."""

    def __init__(self) -> None:
        self._kept = memoryview(b"")

    def of(self, size_bytes: int) -> memoryview:
        """What it held is still in it."""
        if len(self._kept) < size_bytes:
            self._kept = np.empty(size_bytes, np.uint8).data
        return self._kept[:size_bytes]


class _JoinedBytes:
    """The bytes of a range that were not given yet, in a buffer that is used again.

    It grows for a batch that is larger, as its bytes come in and never beyond the range: what a batch says of its
    length is not under the checksum. One that the range cuts is not waited for. A batch is given when it is seen where
    the next one begins, since their offsets have to agree.
    """

    def __init__(self, wanted: SegmentRange, chunk_bytes: int, walk: WalkBatches, memory: ChunkMemory) -> None:
        self._wanted = wanted
        self._walk = walk
        self._position = wanted.start_position
        self._next_offset = 0
        # With room for the beginning of a batch beside it, so that the stream can put whole blocks behind that.
        size = max(chunk_bytes + chunk_bytes // 4, HEADER_BYTES)
        self._buffer = memory.of(min(size, wanted.size_bytes))
        self._chunk_bytes = self._enough = min(chunk_bytes, len(self._buffer))
        self._used = 0
        self._has_defect = False
        self.is_done = False
        """Whether no more bytes can help."""

    @property
    def room(self) -> memoryview:
        """Where the bytes go that come next."""
        return self._buffer[self._used :]

    def add(self, count: int) -> Iterator[ScannedBatches]:
        """So many bytes are there now."""
        self._used += count
        if self._used >= self._enough:
            yield from self.take()

    def take(self, *, is_end: bool = False) -> Iterator[ScannedBatches]:
        """At most one; room for more is made when it was used."""
        if self._has_defect:
            return
        scanned = scan_batches(self._buffer[: self._used], base_position=self._position, walk=self._walk)
        held = len(scanned) and not (is_end or scanned.defect or self._is_next_known(scanned.end_position))
        scanned = self._in_order(scanned.until(len(scanned) - 1) if held else scanned)
        self._has_defect = scanned.defect is not None
        if len(scanned):
            self._next_offset = int(scanned.last_offsets[-1]) + 1
        if len(scanned) or self._has_defect:
            yield scanned
        self._carry_over(scanned.end_position, may_grow=not (is_end or self._has_defect))
        self.is_done = self._has_defect or self._used == len(self._buffer)

    def _carry_over(self, position: int, *, may_grow: bool) -> None:
        rest = self._buffer[position - self._position : self._used]
        is_stuck = position == self._position
        self._position, self._used = position, len(rest)
        if not is_stuck:
            self._buffer[: len(rest)] = bytes(rest)
        elif len(rest) == len(self._buffer) and may_grow and not self._is_cut(position) and not self._is_too_large:
            most = min(self._claimed_size(0) + MAGIC_AT + 1, self._wanted.stop_position - position)
            self._buffer = memoryview(bytearray(min(2 * len(rest), most)))
            self._buffer[: len(rest)] = rest
        self._enough = len(self._buffer) if is_stuck else self._chunk_bytes

    @property
    def _is_too_large(self) -> bool:
        return self._used >= LENGTH_ENDS_AT and self._claimed_size(0) > max(MOST_BATCH_BYTES, len(self._buffer))

    def _claimed_size(self, at: int) -> int:
        length: int = _LENGTH.unpack_from(self._buffer, at + LENGTH_AT)[0]
        return length + LENGTH_ENDS_AT

    def _is_next_known(self, position: int) -> bool:
        """Whether the offset of the batch at this position is there, or there is none that counts."""
        return self._next_base(position) is not None or self._is_cut(position)

    def _next_base(self, position: int) -> int | None:
        at = position - self._position
        if self._used - at <= MAGIC_AT or self._is_cut(position):
            return None
        base: int = _BASE_OFFSET.unpack_from(self._buffer, at)[0]
        return base

    def _is_cut(self, position: int) -> bool:
        """Whether the range ends before the batch at this position does; not known while its length is not there."""
        at = position - self._position
        available = self._wanted.stop_position - position
        if available < HEADER_BYTES or self._used - at < LENGTH_ENDS_AT:
            return available < HEADER_BYTES
        return self._claimed_size(at) > available

    def _in_order(self, scanned: ScannedBatches) -> ScannedBatches:
        """Up to the first batch whose offsets can not be. They are not under the checksum, hence this.

        Of two batches that contradict one another the first is refused: either may be wrong.
        """
        if not len(scanned):
            return scanned
        segment = self._wanted.segment
        firsts, lasts = scanned.table[:, BASE_OFFSET], scanned.last_offsets
        lowest = max(self._next_offset, segment.start_offset)
        next_base = None if scanned.defect else self._next_base(scanned.end_position)
        stop = segment.end_offset + 1 if next_base is None else next_base
        is_within = firsts[0] >= lowest and lasts[-1] < stop and lasts[-1] <= segment.end_offset
        if is_within and (lasts[:-1] < firsts[1:]).all():  # each ends where it begins, or later
            return scanned
        following = np.append(firsts[1:], stop)
        is_outside = (firsts < lowest) | (lasts > segment.end_offset)
        wrong = np.flatnonzero(is_outside | (lasts >= following))
        number = int(wrong[0])
        said = f"it has the offsets {firsts[number]} to {lasts[number]}"
        if is_outside[number]:
            return scanned.until(number, f"{said}, and its segment {segment.start_offset} to {segment.end_offset}")
        return scanned.until(number, f"{said}, and the batch behind it begins with {following[number]}")

    def require_end(self) -> None:
        """Raises FoundDefect when bytes or batches are missing that are wanted."""
        missing = self._wanted.stop_position - self._position
        is_end_of_log = self._wanted.stop_position == self._wanted.segment.segment_size_bytes
        if self._has_defect or not missing or (is_end_of_log and self._next_offset >= self._wanted.stop_offset):
            return
        reason = f"only {missing if self._is_cut(self._position) else self._used} of its bytes are there"
        if self._is_too_large:
            reason = f"it claims {self._claimed_size(0)} bytes, and at most {MOST_BATCH_BYTES} are read"
        raise FoundDefect(BatchDefect(self._position, reason))
