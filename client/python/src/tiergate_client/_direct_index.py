"""An index straight from the store, whole and verified."""

from __future__ import annotations

from contextlib import closing

from crc32c import crc32c

from tiergate_client._direct_file import DirectFile
from tiergate_client._direct_log import OpenReader
from tiergate_client.segment_files import SegmentFile
from tiergate_client.stored_reads import index_of, stored_data_corrupt


def read_index(direct: DirectFile, file: SegmentFile, open_reader: OpenReader) -> bytes:
    """Raises IndexNotFound, StoredDataCorrupt, and what a DirectReader raises."""
    whole = index_of(direct.manifest, file)
    index = bytearray(whole.size_bytes)
    if index:
        with closing(open_reader(direct, 0, len(index))) as reader:
            reader.fill(memoryview(index))
    if crc32c(index) != whole.crc32c:
        raise stored_data_corrupt(direct.manifest, file, 0, "does not match its checksum")
    return bytes(index)
