"""Segment manifests as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from support.metadata_events import segments
from tiergate_client.segment_files import BLOCK_BYTES, REQUIRED_FILES, FileChecksum, SegmentFile, SegmentManifest

uint32 = st.integers(0, 2**32 - 1)
checksums = st.builds(FileChecksum, st.integers(0, 2**63 - 1), uint32)


@st.composite
def manifests(draw: st.DrawFn) -> SegmentManifest:
    blocks = tuple(draw(st.lists(uint32, max_size=5)))
    spare = draw(st.integers(0, BLOCK_BYTES - 1)) if blocks else 0
    optional = draw(st.sets(st.sampled_from(sorted(set(SegmentFile) - REQUIRED_FILES, key=lambda file: file.value))))
    files = {file: draw(checksums) for file in SegmentFile if file in REQUIRED_FILES | optional}
    files[SegmentFile.LOG] = FileChecksum(len(blocks) * BLOCK_BYTES - spare, draw(uint32))
    metadata = draw(segments().filter(lambda metadata: metadata.segment_size_bytes >= 0))
    return SegmentManifest(metadata, files, blocks)
