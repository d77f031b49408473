"""Producer snapshots: the state of every idempotent producer of a partition, as of an offset.

    snapshot = version[i16]=1 crc32c[u32] count[i32] { producer }
    producer = id[i64] epoch[i16] last-sequence[i32] last-offset[i64] offset-delta[i32] timestamp[i64]
               coordinator-epoch[i32] transaction-first-offset[i64]

Big-endian; the checksum covers everything from the count on; -1 stands for none.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

_PRODUCER = struct.Struct(">qhiqiqiq")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer's last batch, and the first offset of its transaction while one is open."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int = -1
    transaction_first_offset: int = -1

    def encode(self) -> bytes:
        return _PRODUCER.pack(
            self.producer_id,
            self.epoch,
            self.last_sequence,
            self.last_offset,
            self.offset_delta,
            self.timestamp_ms,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )


def encode_snapshot(producers: Sequence[ProducerState]) -> bytes:
    body = struct.pack(">i", len(producers)) + b"".join(producer.encode() for producer in producers)
    return struct.pack(">hI", _VERSION, crc32c(body)) + body
