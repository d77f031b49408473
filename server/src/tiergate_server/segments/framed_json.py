"""JSON objects that prove themselves: how everything small in the store is written.

    object = '{"crc32c":"' 8 lowercase hex digits '",' rest
    rest   = the other members of a compact JSON object, in ASCII, and its closing brace

The CRC-32C covers every byte of `rest`; the first 22 bytes are the same in every version to come. What the members mean
is not known here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from crc32c import crc32c

JsonObject = dict[str, Any]

_FRAME = re.compile(rb'\{"crc32c":"([0-9a-f]{8})",')


class BrokenFrame(ValueError):
    """These bytes were not written by `frame`, or have changed since."""


def frame(fields: JsonObject) -> bytes:
    rest = json.dumps(fields, separators=(",", ":")).encode("ascii")[1:]
    return b'{"crc32c":"%08x",' % crc32c(rest) + rest


def unframe(data: bytes) -> JsonObject:
    """Raises BrokenFrame."""
    found = _FRAME.match(data)
    if found is None or crc32c(data[found.end() :]) != int(found[1], 16):
        raise BrokenFrame("its checksum does not match")
    try:
        fields: JsonObject = json.loads(data)
    except ValueError as error:
        raise BrokenFrame(f"its content is not understood ({error})") from error
    return fields
