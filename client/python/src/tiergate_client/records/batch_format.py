"""How a record batch of format 2 is laid out; reading one is not done here.

    batch  = base-offset[i64] length[i32] leader-epoch[i32] magic[i8]=2 crc32c[u32] attributes[i16]
             last-offset-delta[i32] base-timestamp[i64] max-timestamp[i64] producer-id[i64] producer-epoch[i16]
             base-sequence[i32] count[i32] { record }
    record = length[v] attributes[i8] timestamp-delta[v] offset-delta[v]
             key-length[v] key value-length[v] value header-count[v] { key-length[v] key value-length[v] value }

Big-endian; [v] is a zig-zag varint; a length of -1 is null. `length` counts what follows it, the checksum covers
everything from the attributes on. The records are compressed as one block when the attributes name a codec.
"""

from __future__ import annotations

import enum
from typing import Final

import numpy as np

HEADER_DTYPE: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc32c", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)

MIN_RECORD_BYTES: Final = 7
"""Every field of a record takes one byte at least: no body holds more records than a seventh of its bytes."""


class Codec(enum.IntEnum):
    """What the records of a batch are compressed with."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(enum.IntEnum):
    """Whose clock the timestamps are of: the producer's, record by record, or the broker's, one for a batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ControlType(enum.IntEnum):
    """What the record of a control batch says. Others exist, which readers ignore."""

    ABORT = 0
    COMMIT = 1
