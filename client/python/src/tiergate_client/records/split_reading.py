"""Reads a split: from bytes of segments to the records that were asked for. What belongs to it was planned before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tiergate_client.errors import SegmentNotFound
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_chunks import DEFAULT_CHUNK_BYTES, ChunkMemory, batch_chunks
from tiergate_client.records.batch_table import END
from tiergate_client.records.columns import DEFAULT_COLUMNS
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES
from tiergate_client.records.engines import EngineName
from tiergate_client.records.header_scan import named_defects, scan_headers
from tiergate_client.records.read_committed import ReadCommitted
from tiergate_client.records.read_split import ReadSplit, SegmentRange
from tiergate_client.records.record_decoder import RecordDecoder

OnGone: TypeAlias = Callable[[SegmentRange, SegmentNotFound], None]


def read_split(
    split: ReadSplit,
    storage: RemoteStorage,
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    check_crc: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    engine_name: EngineName | None = None,
    on_gone: OnGone | None = None,
) -> Iterator[Any]:
    """The records of the split in the order of the log, as `pyarrow.RecordBatch`es of about `chunk_bytes`.

    Given are records within the offsets of each range: no control batches, nothing of the split's aborted transactions.
    Memory is bounded by a few chunks and the largest batch. Close the iterator when you stop before its end. A segment
    that was deleted since the split was planned is an error, unless `on_gone` is given: it is called with the range, of
    which some records may have been read, and the next one is gone on with.

    Raises CorruptBatch, which names segment and position, after the records of all batches before that one;
    InvalidField, at once, for columns that are not there; and what RemoteStorage.fetch_segment raises.
    """
    decoder = RecordDecoder(
        columns,
        check_crc=check_crc,
        max_decompressed_bytes=max_decompressed_bytes,
        group_bytes=chunk_bytes,
        engine_name=engine_name,
    )
    return _records(split, storage, decoder, chunk_bytes, on_gone)


def _records(
    split: ReadSplit, storage: RemoteStorage, decoder: RecordDecoder, chunk_bytes: int, on_gone: OnGone | None
) -> Iterator[Any]:
    committed = ReadCommitted(split.aborted)
    memory = ChunkMemory()
    for wanted in split.ranges:
        try:
            with named_defects(wanted):
                for scanned in batch_chunks(
                    wanted, storage, chunk_bytes=chunk_bytes, walk=decoder.walk_batches, memory=memory
                ):
                    yield from decoder.decode(
                        scanned,
                        kept=committed.kept(scanned),
                        start_offset=wanted.start_offset,
                        stop_offset=wanted.stop_offset,
                    )
        except SegmentNotFound as error:
            if on_gone is None:
                raise
            on_gone(wanted, error)


def raw_batches(split: ReadSplit, storage: RemoteStorage, *, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> Iterator[bytes]:
    """The batches as they were written, for those who decode them: whole ones, as many at once as `chunk_bytes` hold.

    Batches without an offset that is wanted are left out. The first and the last may have others beside, and there are
    control batches and those of aborted transactions. Checksums are left to the reader; raises like `read_split` apart
    from that.
    """
    for wanted in split.ranges:
        for scanned in scan_headers(wanted, storage, chunk_bytes=chunk_bytes, check_crc=False):
            yield bytes(scanned.buffer[int(scanned.starts[0]) : int(scanned.table[-1, END])])
