"""Turns the batches of a part of a log into Arrow record batches; which part of which segment is decided outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tiergate_client.records.batch_headers import ScannedBatches, scan_batches
from tiergate_client.records.columns import DEFAULT_COLUMNS
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES
from tiergate_client.records.defects import FoundDefect
from tiergate_client.records.engines import EngineName
from tiergate_client.records.record_decoder import DEFAULT_GROUP_BYTES, Mask, RecordDecoder

Keep: TypeAlias = Callable[[ScannedBatches], Mask | None]


def decode_batches(
    buffer: bytes | bytearray | memoryview,
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    check_crc: bool = True,
    base_position: int = 0,
    segment: str = "",
    is_whole: bool = False,
    keep: Keep | None = None,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    group_bytes: int = DEFAULT_GROUP_BYTES,
    engine_name: EngineName | None = None,
) -> Iterator[Any]:
    """The records of the whole batches in the buffer, in the order of the log, as `pyarrow.RecordBatch`es.

    A batch that is cut at the end of the buffer is left out, unless the buffer `is_whole`. Control batches are never
    given. `keep` says of each batch whether its records are wanted, or None for all: ReadCommitted.kept is one. Batches
    are joined until they have about `group_bytes`; one of more than twice that is given in steps.

    Raises CorruptBatch, with `segment` and the position from `base_position` on, after the records of all batches
    before that one; InvalidField, at once, for columns that are not there.
    """
    decoder = RecordDecoder(
        columns,
        check_crc=check_crc,
        max_decompressed_bytes=max_decompressed_bytes,
        group_bytes=group_bytes,
        engine_name=engine_name,
    )
    scanned = scan_batches(buffer, base_position=base_position, is_whole=is_whole, walk=decoder.walk_batches)
    return _decoded(decoder, scanned, keep, segment)


def _decoded(decoder: RecordDecoder, scanned: ScannedBatches, keep: Keep | None, segment: str) -> Iterator[Any]:
    try:
        yield from decoder.decode(scanned, kept=keep(scanned) if keep is not None else None)
    except FoundDefect as found:
        raise found.defect.error(segment=segment) from found
