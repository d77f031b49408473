"""Turns the batches of a part of a log into Arrow record batches; which part of which segment is decided outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias

from tiergate_client.records.batch_format import CONTROL
from tiergate_client.records.batch_group import BatchGroup
from tiergate_client.records.batch_headers import BatchHeader, ScannedBatches, scan_batches
from tiergate_client.records.columns import DEFAULT_COLUMNS, schema_of
from tiergate_client.records.decompression import DEFAULT_MAX_DECOMPRESSED_BYTES
from tiergate_client.records.defects import BatchDefect, FoundDefect
from tiergate_client.records.engines import EngineName, engine

Keep: TypeAlias = Callable[[BatchHeader], bool]

DEFAULT_GROUP_BYTES: Final = 2 * 1024 * 1024
_WRONG_CHECKSUM: Final = "its checksum does not match its bytes"


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
    given. `keep` is asked about every batch in order, control batches too, and says whether its records are wanted:
    ReadCommitted.keeps is one. Batches are joined until they have `group_bytes`.

    Raises CorruptBatch, with `segment` and the position from `base_position` on, after the records of all batches
    before that one; InvalidField, at once, for columns that are not there.
    """
    schema_of(columns)
    scanned = scan_batches(buffer, base_position=base_position, is_whole=is_whole)
    group = BatchGroup(scanned, engine(engine_name), columns, max_decompressed_bytes)
    return _decoded(group, _wanted(scanned, check_crc=check_crc, keep=keep), segment=segment, group_bytes=group_bytes)


def _decoded(group: BatchGroup, wanted: Iterator[int], *, segment: str, group_bytes: int) -> Iterator[Any]:
    defect: FoundDefect | None = None
    try:
        for number in wanted:
            group.add(number)
            if group.size_bytes >= group_bytes:
                yield group.take()
    except FoundDefect as found:
        defect = found
    try:
        if group.size_bytes:
            yield group.take()
    except FoundDefect as earlier:
        defect = earlier
    if defect is not None:
        if defect.before is not None:
            yield defect.before
        raise defect.defect.error(segment=segment) from defect


def _wanted(scanned: ScannedBatches, *, check_crc: bool, keep: Keep | None) -> Iterator[int]:
    """The numbers of the batches whose records are given. Raises FoundDefect behind the last sound one."""
    attributes, counts = scanned.fields["attributes"].tolist(), scanned.fields["record_count"].tolist()
    damaged = scanned.wrong_checksums() if check_crc else repeat(False)
    for number, is_damaged in zip(range(len(scanned)), damaged, strict=False):
        if is_damaged:
            raise FoundDefect(BatchDefect(scanned.position(number), _WRONG_CHECKSUM))
        if keep is not None and not keep(scanned[number]):
            continue
        if counts[number] and not attributes[number] & CONTROL:
            yield number
    if scanned.defect is not None:
        raise FoundDefect(scanned.defect)
