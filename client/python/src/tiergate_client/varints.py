"""Numbers in as few bytes as they need, as protobuf and Kafka write them alike. Reading differs: each has its limits.

    varint = 7 bits per byte, the least significant group first, the high bit says that more follow

for example `ac 02` is 300.
"""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    """A number that is not negative."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
