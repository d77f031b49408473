"""Fetches indexes of segments and reads them; a damaged one is refused by the name of its segment.

Which indexes are needed, and what follows from them, is decided outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from tiergate_client.errors import IndexNotFound, InvalidField, StoredDataCorrupt, TiergateError
from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.offset_index import OffsetIndex
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata

Index = TypeVar("Index")

# The offset index of a segment of 1 GiB has up to 2 MiB: this many are in memory at a time.
_ASKED_AT_ONCE: Final = 16


def offset_indexes(storage: RemoteStorage, segments: Sequence[RemoteLogSegmentMetadata]) -> Iterator[OffsetIndex]:
    """Of each segment in turn, a few in memory at a time. Raises what kept the first one that is asked for."""
    remaining = iter(segments)
    while asked := list(islice(remaining, _ASKED_AT_ONCE)):
        answers = storage.fetch_indexes([IndexQuestion(segment, SegmentFile.OFFSET_INDEX) for segment in asked])
        for segment, answer in zip(asked, answers, strict=True):
            yield parsed_offset_index(segment, answer)


def parsed_offset_index(segment: RemoteLogSegmentMetadata, answer: bytes | TiergateError) -> OffsetIndex:
    index = parsed(
        segment, SegmentFile.OFFSET_INDEX, answer, partial(OffsetIndex.parse, base_offset=segment.start_offset)
    )
    if index.positions and index.positions[-1] >= segment.segment_size_bytes:
        fact = f"its offset index points to byte {index.positions[-1]} of {segment.segment_size_bytes}"
        raise _damaged(segment, SegmentFile.OFFSET_INDEX, f"{fact}; restore the segment from another replica")
    return index


def parsed(
    segment: RemoteLogSegmentMetadata,
    file: SegmentFile,
    answer: bytes | TiergateError,
    parse: Callable[[bytes], Index],
) -> Index:
    """Raises the answer when it is an error, StoredDataCorrupt when it can not be parsed."""
    if isinstance(answer, TiergateError):
        raise answer
    try:
        return parse(answer)
    except (InvalidField, StoredDataCorrupt) as error:
        raise _damaged(segment, file, error.message.rstrip(".")) from error


def parsed_if_there(
    segment: RemoteLogSegmentMetadata,
    file: SegmentFile,
    answer: bytes | TiergateError,
    parse: Callable[[bytes], Index],
) -> Index | None:
    """None when the segment was stored without this index; every other error is raised."""
    return None if isinstance(answer, IndexNotFound) else parsed(segment, file, answer, parse)


def _damaged(segment: RemoteLogSegmentMetadata, file: SegmentFile, fact: str) -> StoredDataCorrupt:
    return StoredDataCorrupt(
        f"Segment {segment.segment_id} of {segment.partition}: {fact}.",
        details={"segment": str(segment.segment_id), "file": file.value},
    )
