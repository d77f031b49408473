"""The loop that frames records as protobuf messages, compiled by numba; arrays are made in `record_framing.py`.

Apart from `_kernels.py`, because only a server needs it: workers that decode shall not load it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tiergate_client.records._kernels import _copy

_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_OUT_BYTES = numba.types.Array(numba.uint8, 1, "C")
_LONGS = numba.types.Array(numba.int64, 1, "C")
_TABLE = numba.types.Array(numba.int64, 2, "C")

_RECORD, _OFFSET, _TIMESTAMP, _TYPE, _KEY, _VALUE, _HEADER = 0x32, 0x08, 0x10, 0x18, 0x22, 0x2A, 0x32
_HEADER_KEY, _HEADER_VALUE = 0x0A, 0x12


@numba.njit(inline="always", nogil=True)
def _varint_bytes(number: int) -> int:
    size = 1
    rest = np.uint64(number) >> np.uint64(7)
    while rest:
        size += 1
        rest >>= np.uint64(7)
    return size


@numba.njit(inline="always", nogil=True)
def _put_varint(out: Any, at: int, number: int) -> int:
    rest = np.uint64(number)
    while rest >= np.uint64(0x80):
        out[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@numba.njit(inline="always", nogil=True)
def _number_bytes(number: int) -> int:
    """Of a field with a number: protobuf leaves out 0."""
    return 1 + _varint_bytes(number) if number != 0 else 0


@numba.njit(inline="always", nogil=True)
def _put_number(out: Any, at: int, tag: int, number: int) -> int:
    if number == 0:
        return at
    out[at] = tag
    return _put_varint(out, at + 1, number)


@numba.njit(inline="always", nogil=True)
def _buffer_bytes(length: int) -> int:
    """Of a field with bytes; a negative length is one that is absent."""
    return 1 + _varint_bytes(length) + length if length >= 0 else 0


@numba.njit(inline="always", nogil=True)
def _put_buffer(  # noqa: PLR0917 - numba takes no keywords
    out: Any, at: int, tag: int, data: Any, start: int, length: int
) -> int:
    if length < 0:
        return at
    out[at] = tag
    at = _put_varint(out, at + 1, length)
    _copy(out, at, data, start, length)  # type: ignore[call-arg]
    return at + length


@numba.njit(inline="always", nogil=True)
def _header_bytes(spans: Any, header: int) -> int:
    """Protobuf leaves out an empty key, which is a string without presence."""
    key_length = spans[1, header]
    return _buffer_bytes(key_length if key_length > 0 else -1) + _buffer_bytes(spans[3, header])


@numba.njit(
    numba.int64(_TABLE, _TABLE, _BYTES, _BYTES, _LONGS, _TABLE, _BYTES, _BYTES, _OUT_BYTES, _LONGS),
    cache=True,
    nogil=True,
)
def frame_records(  # noqa: PLR0917 - numba takes no keywords
    numbers: Any,
    spans: Any,
    keys: Any,
    values: Any,
    header_ends: Any,
    header_spans: Any,
    header_keys: Any,
    header_values: Any,
    out: Any,
    ends: Any,
) -> int:
    """Records one behind the other, with tag and length, and where each one ends; how many bytes that are."""
    at = 0
    for record in range(numbers.shape[1]):
        offset, timestamp, kind = numbers[0, record], numbers[1, record], numbers[2, record]
        size = _number_bytes(offset) + _number_bytes(timestamp) + _number_bytes(kind)
        size += _buffer_bytes(spans[1, record]) + _buffer_bytes(spans[3, record])
        for header in range(header_ends[record], header_ends[record + 1]):
            header_size = _header_bytes(header_spans, header)
            size += 1 + _varint_bytes(header_size) + header_size
        out[at] = _RECORD
        at = _put_varint(out, at + 1, size)
        at = _put_number(out, at, _OFFSET, offset)
        at = _put_number(out, at, _TIMESTAMP, timestamp)
        at = _put_number(out, at, _TYPE, kind)
        at = _put_buffer(out, at, _KEY, keys, spans[0, record], spans[1, record])
        at = _put_buffer(out, at, _VALUE, values, spans[2, record], spans[3, record])
        for header in range(header_ends[record], header_ends[record + 1]):
            out[at] = _HEADER
            at = _put_varint(out, at + 1, _header_bytes(header_spans, header))
            key_length = header_spans[1, header]
            at = _put_buffer(
                out, at, _HEADER_KEY, header_keys, header_spans[0, header], key_length if key_length > 0 else -1
            )
            at = _put_buffer(out, at, _HEADER_VALUE, header_values, header_spans[2, header], header_spans[3, header])
        ends[record] = at
    return at
