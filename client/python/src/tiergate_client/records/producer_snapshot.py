"""Producer snapshots: the state of every idempotent producer of a partition, as of the end of a segment.

    snapshot = version[i16]=1 crc32c[u32] count[i32] { producer }
    producer = id[i64] epoch[i16] last-sequence[i32] last-offset[i64] offset-delta[i32] timestamp[i64]
               coordinator-epoch[i32] transaction-first-offset[i64]

Big-endian; the checksum covers everything from the count on; -1 stands for none. Writing one is the broker's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from crc32c import crc32c

from tiergate_client.records.index_errors import corrupt_index

_HEAD: Final = struct.Struct(">hIi")
_CHECKSUMMED_FROM: Final = 6
_PRODUCER: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer's last batch, and the first offset of its transaction while one is open, else -1."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """The producers in the order of the file."""

    producers: tuple[ProducerState, ...]

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Raises StoredDataCorrupt."""
        if len(content) < _HEAD.size:
            raise corrupt_index("producer snapshot", f"it has {len(content)} bytes only")
        version, checksum, count = _HEAD.unpack_from(content)
        if version != _VERSION:
            raise corrupt_index("producer snapshot", f"it has version {version}, and only {_VERSION} is known")
        if crc32c(content[_CHECKSUMMED_FROM:]) != checksum:
            raise corrupt_index("producer snapshot", "its checksum does not match its bytes")
        if len(content) != _HEAD.size + count * _PRODUCER.size:
            raise corrupt_index("producer snapshot", f"its {len(content)} bytes do not hold {count} producers")
        return cls(tuple(ProducerState(*fields) for fields in _PRODUCER.iter_unpack(content[_HEAD.size :])))
