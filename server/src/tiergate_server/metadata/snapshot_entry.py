"""Kafka's snapshot entry: one segment of a partition that the reader already knows. In files only, never in the log.

    entry = 01 03 00 segment-id[16] fields         `segment_fields` has the grammar of fields

for example `01 03 00`, 16 bytes of id, `0000000000000064 00000000000000c7` (offsets 100 to 199), and so on. The message
has no place for TxnIndexEmpty, so an entry forgets it: false means "unknown". Files of entries are not made here.
"""

from __future__ import annotations

import struct

from tiergate_client.ids import SegmentId
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_server.metadata.event_errors import UnknownEvent
from tiergate_server.metadata.frame import DAMAGE, corruption, read_header, require_end
from tiergate_server.metadata.segment_fields import decode_segment_fields, encode_segment_fields

_API_KEY = 3
_API_VERSION = 0
_HEADER = bytes.fromhex("010300")
_ID = struct.Struct(">16s")


def encode_snapshot_entry(metadata: RemoteLogSegmentMetadata) -> bytes:
    return _HEADER + metadata.segment_id.raw + encode_segment_fields(metadata, txn_index_empty=False)


def decode_snapshot_entry(data: bytes, partition: TopicIdPartition) -> RemoteLogSegmentMetadata:
    """The segment of `partition` that an entry holds. Raises UnknownEvent for another message, CorruptEvent."""
    try:
        api_key, api_version, position = read_header(data)
        if (api_key, api_version) != (_API_KEY, _API_VERSION):
            raise UnknownEvent(f"api key {api_key}, version {api_version} is not a snapshot entry")
        (raw,) = _ID.unpack_from(data, position)
        metadata, position = decode_segment_fields(
            data, position + _ID.size, partition=partition, segment_id=SegmentId(raw)
        )
        require_end(data, position)
    except DAMAGE as damage:
        raise corruption(damage) from None
    return metadata
