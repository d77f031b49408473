"""Goes from batch to batch through a part of a log and collects their headers; engines have a faster one.

Headers are checked for sense, as far as they can be by themselves. What is wrong with one is said elsewhere.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from tiergate_client.batch_layout import CODEC_MASK, HEADER_BYTES, LENGTH_AT, LENGTH_ENDS_AT, MAGIC, MAGIC_AT
from tiergate_client.records.batch_format import HEADER_DTYPE, Codec
from tiergate_client.records.batch_table import table_of

MIN_LENGTH: Final = HEADER_BYTES - LENGTH_ENDS_AT
LENGTH_TO_MAGIC: Final = struct.Struct(">i4xb")


class WalkedBatches(NamedTuple):
    """Of the whole batches at the beginning of some bytes, up to the first one that makes no sense or is cut."""

    table: npt.NDArray[np.int64]
    """See `batch_table.py`."""
    end: int
    """Of the last one."""
    is_sound: bool
    """Whether what begins at the end may be a batch, or is nothing."""


def walk_batches(data: npt.NDArray[np.uint8]) -> WalkedBatches:
    starts, end, is_sound = _batch_starts(data.data)
    found = np.array(starts, dtype=np.int64)
    headers = sliding_window_view(data, HEADER_BYTES)[found] if starts else np.empty((0, HEADER_BYTES), np.uint8)
    is_bad = _make_no_sense(headers.view(HEADER_DTYPE)[:, 0])
    if not is_bad.any():
        return WalkedBatches(table_of(found, headers), end, is_sound)
    count = int(is_bad.argmax())
    return WalkedBatches(table_of(found[:count], headers[:count]), starts[count], is_sound=False)


def _batch_starts(view: memoryview) -> tuple[list[int], int, bool]:
    starts: list[int] = []
    position, end = 0, len(view)
    while position + MAGIC_AT < end:
        length, magic = LENGTH_TO_MAGIC.unpack_from(view, position + LENGTH_AT)
        if magic != MAGIC or length < MIN_LENGTH:
            return starts, position, False
        size = length + LENGTH_ENDS_AT
        if size > end - position:
            break
        starts.append(position)
        position += size
    return starts, position, True


def _make_no_sense(fields: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    count, delta = fields["record_count"], fields["last_offset_delta"].astype(np.int64)
    is_bad: npt.NDArray[np.bool_] = (
        (fields["base_offset"] < 0)
        | (delta < 0)
        | (fields["base_offset"] >= np.iinfo(np.int64).max - delta)
        | (count < 0)
        | (count > delta + 1)
        | ((fields["attributes"] & CODEC_MASK) > max(Codec))
        | ((count == 0) & (fields["length"] != MIN_LENGTH))
    )
    return is_bad
