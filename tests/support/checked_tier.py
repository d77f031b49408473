"""Copies of segments in memory with their manifests, so that all that is stored of one can be checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from support.tier_in_memory import TierInMemory
from tiergate_client.errors import SegmentNotFound, StoredDataCorrupt
from tiergate_client.interfaces import SegmentStream
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import BLOCK_BYTES, SegmentFile, SegmentManifest
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_client.verification import Damage, VerificationProgress


class CheckedTier(TierInMemory):
    """Manifests fit the files as they are now, whatever a test did to them; `rotten_blocks` do not fit any more."""

    rotten_blocks: frozenset[int] = frozenset()
    manifest_changes: Mapping[str, object] = MappingProxyType({})

    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        if metadata.segment_id not in self.files:
            raise SegmentNotFound(f"segment {metadata.segment_id} is not there")
        stored = self.copies[metadata.segment_id].metadata
        files = {file.name.lower(): content for file, content in self.files[metadata.segment_id].items()}
        changes: Mapping[str, Any] = self.manifest_changes
        return replace(LogSegmentData(**files).manifest(stored), metadata=replace(stored, **changes))

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        content = self._file(metadata, SegmentFile.LOG)
        stop = len(content) if length is None else min(len(content), offset + length)
        return SegmentStream(self._blocks(content, offset, stop), lambda: None)

    def _blocks(self, content: bytes, offset: int, stop: int) -> Iterator[bytes]:
        """As the service gives them: block by block, up to one that is damaged."""
        while offset < stop:
            block = offset // BLOCK_BYTES
            if block in self.rotten_blocks:
                raise StoredDataCorrupt(f"block {block} does not match its checksum")
            end = min(stop, (block + 1) * BLOCK_BYTES)
            yield content[offset:end]
            offset = end

    def verify_segment(self, metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        total = len(self._file(metadata, SegmentFile.LOG))
        for block in sorted(self.rotten_blocks):
            damage = Damage(SegmentFile.LOG, block * BLOCK_BYTES, "does not match its checksum")
            yield VerificationProgress(block * BLOCK_BYTES, total, (damage,))
        yield VerificationProgress(total, total)
