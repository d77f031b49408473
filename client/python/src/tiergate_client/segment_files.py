"""The content of a segment: its files, their checksums, and the digest that names an upload of exactly that content."""

from __future__ import annotations

import enum
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tiergate_client.errors import InvalidField
from tiergate_client.integers import INT32_MAX, require_int64
from tiergate_client.values import RemoteLogSegmentMetadata

BLOCK_BYTES = 1024 * 1024
"""The log is checksummed in blocks of this size; stored for ever, so it never changes within a manifest version."""


class SegmentFile(enum.Enum):
    """The files of a segment; the value is the file's name in the object store."""

    LOG = "log"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    LEADER_EPOCH = "leader_epoch"
    TXN_INDEX = "txn_index"


REQUIRED_FILES = frozenset(
    {SegmentFile.LOG, SegmentFile.OFFSET_INDEX, SegmentFile.TIME_INDEX, SegmentFile.LEADER_EPOCH}
)


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """Size and CRC-32C of one file."""

    size_bytes: int
    crc32c: int

    def __post_init__(self) -> None:
        require_int64("size_bytes", self.size_bytes, minimum=0)


@dataclass(frozen=True, slots=True)
class IndexQuestion:
    """Which index of which segment."""

    metadata: RemoteLogSegmentMetadata
    file: SegmentFile


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """The exact content of a segment: what an upload announces, and what is stored when it is complete."""

    metadata: RemoteLogSegmentMetadata
    files: Mapping[SegmentFile, FileChecksum]
    log_block_crc32c: tuple[int, ...]

    def __post_init__(self) -> None:
        missing = REQUIRED_FILES - self.files.keys()
        if missing:
            names = ", ".join(sorted(file.value for file in missing))
            raise InvalidField.of("files", f"a segment needs its {names}")
        if self.log.size_bytes > INT32_MAX:
            raise InvalidField.of("files", f"a log has at most {INT32_MAX} bytes, not {self.log.size_bytes}")
        blocks = -(-self.log.size_bytes // BLOCK_BYTES)
        if len(self.log_block_crc32c) != blocks:
            raise InvalidField.of(
                "log_block_crc32c",
                f"a log of {self.log.size_bytes} bytes has {blocks} blocks, not {len(self.log_block_crc32c)}",
            )

    @property
    def log(self) -> FileChecksum:
        return self.files[SegmentFile.LOG]

    @property
    def upload_digest(self) -> str:
        """32 hex digits that name this content. Stored for ever in object keys and custom metadata.

        The first 16 bytes of SHA-256 over, all integers big-endian:

            "tiergate-upload-1" topic-id[16] partition[i32] segment-id[16] start[i64] end[i64]
            epoch-count[u32] { epoch[i32] start[i64] }
            file-count[u32] { name-length[u8] name size[i64] crc32c[u32] }     ascending by name
            block-count[u32] { crc32c[u32] }

        Event time, broker id, state and custom metadata are left out: they may differ between two attempts to send
        the same content.
        """
        meta = self.metadata
        epochs = meta.segment_leader_epochs.entries
        parts = [
            b"tiergate-upload-1",
            meta.partition.topic_id.raw,
            struct.pack(">i", meta.partition.partition),
            meta.segment_id.raw,
            struct.pack(">qqI", meta.start_offset, meta.end_offset, len(epochs)),
            *(struct.pack(">iq", epoch, start) for epoch, start in epochs),
            struct.pack(">I", len(self.files)),
        ]
        for file, checksum in sorted(self.files.items(), key=lambda item: item[0].value):
            name = file.value.encode("ascii")
            parts.append(struct.pack(">B", len(name)) + name)
            parts.append(struct.pack(">qI", checksum.size_bytes, checksum.crc32c))
        blocks = self.log_block_crc32c
        parts.append(struct.pack(f">I{len(blocks)}I", len(blocks), *blocks))
        return hashlib.sha256(b"".join(parts)).hexdigest()[:32]
