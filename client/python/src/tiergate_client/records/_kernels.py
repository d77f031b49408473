"""The loops over batches and records, compiled by numba; what happens once per call is done elsewhere.

Self-contained on purpose: numba keeps its cache beside this file, and a copy of the file in another place works alone
(see `kernel_loading.py`). The numbers of columns, rows, defects and headers are those of `batch_table.py`,
`record_columns.py`, `engines.py` and `defects.py`.
"""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_OUT_BYTES = numba.types.Array(numba.uint8, 1, "C")
_LONGS = numba.types.Array(numba.int64, 1, "C")
_TABLE = numba.types.Array(numba.int64, 2, "C")
_INTS = numba.types.Array(numba.int32, 1, "C")

_FAILED = -1
_RECORD_CUT, _RECORD_LENGTH, _NUMBER, _FIELD_LENGTH, _OFFSET, _HEADERS, _REST, _MANY_HEADERS = 1, 2, 3, 4, 5, 6, 7, 8
_MOST_HEADERS = 512 * 1024
_WORD_BYTES, _MOST_IN_STEPS = 8, 512
STEP_BYTES = 32
"""So many are copied at once; memory that has room for so many more is filled that way up to its end."""
_HEADER_BYTES, _LENGTH_ENDS_AT, _MAGIC_AT, _MAGIC, _LAST_CODEC = 61, 12, 16, 2, 4
_LOG_APPEND_TIME, _CONTROL = 8, 32
_LZ4, _ZSTD, _LZ4_BLOCK_BYTES = 3, 4, 64 * 1024
_HAS_WORDS = sys.byteorder == "little"


@numba.njit(inline="always", nogil=True)
def _big_endian(data: Any, at: int, size: int) -> Any:
    """A signed number of so many bytes."""
    number = np.int64(np.int8(data[at]))
    for index in range(1, size):
        number = (number << 8) | np.int64(data[at + index])
    return number


@numba.njit(numba.types.Tuple((numba.int64, numba.int64, numba.boolean))(_BYTES, _TABLE), cache=True, nogil=True)
def walk_batches(data: Any, table: Any) -> Any:
    """Fills in as many as there is room for; how many there are, where they end, whether a batch may follow."""
    count, at, end = 0, 0, data.shape[0]
    while at + _MAGIC_AT < end:
        length = _big_endian(data, at + 8, 4)
        if data[at + _MAGIC_AT] != _MAGIC or length < _HEADER_BYTES - _LENGTH_ENDS_AT:
            return count, at, False
        if length + _LENGTH_ENDS_AT > end - at:
            break
        base_offset, last_delta = _big_endian(data, at, 8), _big_endian(data, at + 23, 4)
        records, attributes = _big_endian(data, at + 57, 4), _big_endian(data, at + 21, 2)
        if base_offset < 0 or last_delta < 0 or base_offset >= np.iinfo(np.int64).max - last_delta:
            return count, at, False
        if records < 0 or records > last_delta + 1 or (attributes & 7) > _LAST_CODEC:
            return count, at, False
        if records == 0 and length != _HEADER_BYTES - _LENGTH_ENDS_AT:
            return count, at, False
        if count < table.shape[0]:
            row = table[count]
            row[0], row[1], row[2] = at + _HEADER_BYTES, at + length + _LENGTH_ENDS_AT, records
            row[3], row[4] = base_offset, last_delta
            row[5], row[6] = _big_endian(data, at + 27, 8), _big_endian(data, at + 35, 8)
            row[7], row[8], row[9] = (attributes & _LOG_APPEND_TIME) != 0, -1, 0
            row[10], row[11], row[12] = at, length, _big_endian(data, at + 12, 4)
            row[13], row[14] = _big_endian(data, at + 17, 4) & 0xFFFFFFFF, attributes
            row[15], row[16] = _big_endian(data, at + 43, 8), _big_endian(data, at + 51, 2)
            row[17], row[18] = _big_endian(data, at + 53, 4), base_offset + last_delta
            row[19] = records > 0 and (attributes & _CONTROL) == 0
        count += 1
        at += length + _LENGTH_ENDS_AT
    return count, at, True


@numba.njit(inline="always", nogil=True)
def _read_int(data: Any, at: int, end: int) -> Any:
    """A zig-zag varint of 32 bits and where it ends; a negative end is a failure. Never reads at `end`."""
    if at >= end:
        return np.int64(0), np.int64(_FAILED)
    byte = np.uint32(data[at])
    at += 1
    raw = byte & np.uint32(0x7F)
    if byte >= 0x80:
        shift = np.uint32(7)
        while True:
            if at >= end or shift > 28:
                return np.int64(0), np.int64(_FAILED)
            byte = np.uint32(data[at])
            at += 1
            if shift == 28 and byte > 0x0F:
                return np.int64(0), np.int64(_FAILED)
            raw |= (byte & np.uint32(0x7F)) << shift
            if byte < 0x80:
                break
            shift += np.uint32(7)
    return np.int64(raw >> np.uint32(1)) ^ -np.int64(raw & np.uint32(1)), np.int64(at)


@numba.njit(inline="always", nogil=True)
def _read_long(data: Any, at: int, end: int) -> Any:
    """The same of 64 bits."""
    if at >= end:
        return np.int64(0), np.int64(_FAILED)
    byte = np.uint64(data[at])
    at += 1
    raw = byte & np.uint64(0x7F)
    if byte >= 0x80:
        shift = np.uint64(7)
        while True:
            if at >= end or shift > 63:
                return np.int64(0), np.int64(_FAILED)
            byte = np.uint64(data[at])
            at += 1
            if shift == 63 and byte > 1:
                return np.int64(0), np.int64(_FAILED)
            raw |= (byte & np.uint64(0x7F)) << shift
            if byte < 0x80:
                break
            shift += np.uint64(7)
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), np.int64(at)


@numba.njit(inline="always", nogil=True)
def _skip_headers(data: Any, at: int, end: int, count: int) -> Any:
    """Where they end; negative if they reach beyond `end`."""
    for _ in range(count):
        length, at = _read_int(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return np.int64(_FAILED)
        length, at = _read_int(data, at + length, end)
        if at < 0 or length < -1 or length > end - at:
            return np.int64(_FAILED)
        at += max(length, 0)
    return np.int64(at)


@intrinsic  # type: ignore[arg-type, misc, unused-ignore] # its arguments are types, and more than it is declared with
def _word(_context: Any, data: Any, _at: Any) -> Any:
    """Eight bytes at once, wherever they begin."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at = arguments
        content = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=array).data
        word = builder.load(
            builder.bitcast(builder.gep(content, [at]), context.get_value_type(numba.uint64).as_pointer())
        )
        word.align = 1
        return word

    return numba.uint64(data, numba.types.intp), generate


@numba.njit(inline="always", nogil=True)
def _read_short(word: Any) -> Any:
    """A zig-zag varint at the beginning of a word if it has one or two bytes: its value, bits, and 0 if that is so."""
    has_two = (word >> np.uint64(7)) & np.uint64(1)
    raw = (word & np.uint64(0x7F)) | ((word >> np.uint64(1)) & np.uint64(0x3F80) & (np.uint64(0) - has_two))
    value = np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1))
    return value, np.uint64(8) + (has_two << np.uint64(3)), word & (has_two << np.uint64(15))


@intrinsic  # type: ignore[arg-type, misc, unused-ignore] # its arguments are types, and more than it is declared with
def _copy(_context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any, _length: Any) -> Any:
    """memcpy: of a loop over bytes the compiler can not know that the arrays do not overlap, which costs ten times."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, to_at, of, of_at, count = arguments
        to_data = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=to).data
        of_data = cgutils.create_struct_proxy(signature.args[2])(context, builder, value=of).data
        cgutils.raw_memcpy(builder, builder.gep(to_data, [to_at]), builder.gep(of_data, [of_at]), count, 1)
        return context.get_dummy_value()

    indexes = (numba.types.intp,) * 2
    return numba.void(target, indexes[0], source, *indexes), generate


@intrinsic  # type: ignore[arg-type, misc, unused-ignore] # as above
def _copy_step(_context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any) -> Any:
    """STEP_BYTES at once, in a register."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, to_at, of, of_at = arguments
        to_data = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=to).data
        of_data = cgutils.create_struct_proxy(signature.args[2])(context, builder, value=of).data
        register = ir.VectorType(ir.IntType(8), STEP_BYTES).as_pointer()
        step = builder.load(builder.bitcast(builder.gep(of_data, [of_at]), register))
        step.align = 1
        builder.store(step, builder.bitcast(builder.gep(to_data, [to_at]), register)).align = 1
        return context.get_dummy_value()

    return numba.void(target, numba.types.intp, source, numba.types.intp), generate


@numba.njit(inline="always", nogil=True)
def _append(out: Any, used: int, data: Any, at: int, length: int) -> None:
    """What is short is copied in whole steps where both arrays have room for that: what is too much is overwritten."""
    has_room = at + length + STEP_BYTES <= data.shape[0] and used + length + STEP_BYTES <= out.shape[0]
    if has_room and length <= _MOST_IN_STEPS:
        done = np.int64(0)
        while done < length:
            _copy_step(out, used + done, data, at + done)  # type: ignore[call-arg]
            done += STEP_BYTES
    else:
        _copy(out, used, data, at, length)  # type: ignore[call-arg]


# One function, so that nothing is handed over per record: to note where keys and values stand, and to copy them in a
# second loop, takes half as long again where records have 100 bytes. What is as in most records, with numbers of one
# or two bytes, is read a word at a time, which takes half of the time; what is not is read again, number by number.
@numba.njit(
    numba.types.UniTuple(numba.int64, 3)(
        _BYTES, _TABLE, _LONGS, _LONGS, *(_INTS, _OUT_BYTES, _OUT_BYTES) * 2, _TABLE, _LONGS
    ),
    cache=True,
    nogil=True,
)
def read_records(  # noqa: C901, PLR0912, PLR0915, PLR0917 - as the comment says; and numba takes no keywords
    data: Any,
    batches: Any,
    offsets: Any,
    timestamps: Any,
    key_ends: Any,
    key_validity: Any,
    keys: Any,
    value_ends: Any,
    value_validity: Any,
    values: Any,
    headers: Any,
    totals: Any,
) -> Any:
    """Fills in the columns; the batch with a defect, or -1, which one, and where the records end.

    Ends, validity and bytes are those of Arrow: ends begin with 0, all bits of validity are set before. The totals are
    the bytes of all keys, how many are null, and the same of values. Columns that have no room are left out.
    """
    record = np.uint64(0)  # an index that can not be negative is not looked at twice
    at = np.int64(0)
    has_keys, has_values, has_headers = key_ends.shape[0] > 0, value_ends.shape[0] > 0, headers.shape[1] > 0
    key_bytes: Any = np.int64(0)
    value_bytes: Any = np.int64(0)
    null_keys, null_values = np.int64(0), np.int64(0)
    if has_keys:
        key_ends[0] = 0
    if has_values:
        value_ends[0] = 0
    for batch in range(batches.shape[0]):
        at, body_end = batches[batch, 0], batches[batch, 1]
        base_offset, last_delta = batches[batch, 3], batches[batch, 4]
        base_timestamp, fixed_timestamp, is_fixed = batches[batch, 5], batches[batch, 6], batches[batch, 7]
        previous_delta = batches[batch, 8]
        for _ in range(batches[batch, 2]):
            is_read = False
            if _HAS_WORDS and body_end - at >= _WORD_BYTES:
                word: Any = _word(data, at)  # type: ignore[call-arg]
                length, bits, is_longer = _read_short(word)
                used = bits + np.uint64(8)  # there is a byte of attributes
                end = at + np.int64(bits >> np.uint64(3)) + length
                delta_ms, bits, is_long = _read_short(word >> used)
                used += bits
                is_longer |= is_long
                delta, bits, is_long = _read_short(word >> used)
                used += bits
                is_longer |= is_long
                key_length, bits, is_long = _read_short((word >> used) & np.uint64(0xFF))
                key_at = at + np.int64((used + bits) >> np.uint64(3))
                if (is_longer | (bits - np.uint64(8))) == 0 and key_at <= end <= body_end:
                    at = key_at
                    is_read = True
            if not is_read:
                length, at = _read_int(data, at, body_end)
                if at < 0:
                    return batch, _RECORD_CUT, at
                if length < 0 or length > body_end - at:
                    return batch, _RECORD_CUT, at
                end = at + length
                delta_ms, at = _read_long(data, at + 1, end)
                if at < 0:
                    return batch, _NUMBER, at
                delta, at = _read_int(data, at, end)
                if at < 0:
                    return batch, _NUMBER, at
            if delta <= previous_delta or delta > last_delta:
                return batch, _OFFSET, at
            previous_delta = delta
            if not is_read:
                key_length, at = _read_int(data, at, end)
                if at < 0:
                    return batch, _NUMBER, at
            if key_length < -1 or key_length > end - at:
                return batch, _FIELD_LENGTH, at
            if has_keys:
                if key_length >= 0:
                    _append(keys, key_bytes, data, at, key_length)
                    key_bytes += key_length
                else:
                    key_validity[record >> np.uint64(3)] &= ~np.uint8(1 << (record & np.uint64(7)))
                    null_keys += 1
                key_ends[record + np.uint64(1)] = key_bytes
            at += max(key_length, 0)
            is_read = False
            if _HAS_WORDS and end - at >= _WORD_BYTES:
                value_length, bits, is_longer = _read_short(_word(data, at))  # type: ignore[call-arg]
                value_at = at + np.int64(bits >> np.uint64(3))
                if is_longer == 0 and value_length >= 0 and value_at + value_length == end - 1 and data[end - 1] == 0:
                    at = end
                    header_at, header_count = end, np.int64(0)
                    is_read = True
            if not is_read:
                value_length, at = _read_int(data, at, end)
                if at < 0:
                    return batch, _NUMBER, at
                if value_length < -1 or value_length > end - at:
                    return batch, _FIELD_LENGTH, at
                value_at = at
                at += max(value_length, 0)
                header_count, at = _read_int(data, at, end)
                if at < 0:
                    return batch, _NUMBER, at
                if header_count < 0:
                    return batch, _HEADERS, at
                if header_count > _MOST_HEADERS:
                    return batch, _MANY_HEADERS, at
                header_at = at
                at = _skip_headers(data, at, end, header_count)
                if at < 0:
                    return batch, _HEADERS, at
                if at != end:
                    return batch, _RECORD_LENGTH, at
            if has_values:
                if value_length >= 0:
                    _append(values, value_bytes, data, value_at, value_length)
                    value_bytes += value_length
                else:
                    value_validity[record >> np.uint64(3)] &= ~np.uint8(1 << (record & np.uint64(7)))
                    null_values += 1
                value_ends[record + np.uint64(1)] = value_bytes
            if has_headers:
                headers[0, record], headers[1, record] = header_at, header_count
            offsets[record] = base_offset + delta
            timestamps[record] = fixed_timestamp if is_fixed else base_timestamp + delta_ms
            record += np.uint64(1)
        if at != body_end and not batches[batch, 9]:
            return batch, _REST, at
    totals[0], totals[1], totals[2], totals[3] = key_bytes, null_keys, value_bytes, null_values
    return -1, 0, at


@numba.njit(numba.void(_BYTES, _TABLE, _TABLE), cache=True, nogil=True)
def index_headers(data: Any, headers: Any, header_spans: Any) -> None:
    """Of records that `read_records` found to be sound."""
    header = 0
    end = data.shape[0]
    for record in range(headers.shape[1]):
        at = headers[0, record]
        for _ in range(headers[1, record]):
            length, at = _read_int(data, at, end)
            header_spans[0, header], header_spans[1, header] = at, length
            at += length
            length, at = _read_int(data, at, end)
            header_spans[2, header], header_spans[3, header] = at, length
            at += max(length, 0)
            header += 1


@numba.njit(numba.void(_BYTES, _LONGS, _LONGS, _INTS, _OUT_BYTES, _OUT_BYTES), cache=True, nogil=True)
def gather(  # noqa: PLR0917 - numba takes no keywords
    data: Any, starts: Any, lengths: Any, ends: Any, validity: Any, gathered: Any
) -> None:
    """Copies spans one behind the other; see `read_records` for `ends` and `validity`."""
    written: Any = np.int64(0)
    ends[0] = 0
    for number in range(starts.shape[0]):
        length = lengths[number]
        if length >= 0:
            _append(gathered, written, data, starts[number], length)
            written += length
        else:
            validity[number >> 3] &= ~np.uint8(1 << (number & 7))
        ends[number + 1] = written


@intrinsic  # type: ignore[arg-type, misc, unused-ignore] # its arguments are types, and more than it is declared with
def _call_lz4(_context: Any, _function: Any, _source: Any, _target: Any, _size: Any, _room: Any) -> Any:
    """LZ4_decompress_safe at this address: how much it wrote, negative if it is no block or has no room."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, source, target, size, room = arguments
        long, integer = source.type, context.get_value_type(numba.int32)
        function = builder.inttoptr(address, ir.FunctionType(integer, [long, long, integer, integer]).as_pointer())
        sizes = [builder.trunc(size, integer), builder.trunc(room, integer)]
        return builder.sext(builder.call(function, [source, target, *sizes]), long)

    return numba.int64(*(numba.int64,) * 5), generate


def _call_of(argument_count: int) -> Any:
    """Of a C function at an address, all of whose arguments have 64 bits, and so has what it returns."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, *given = arguments
        long = address.type
        function = builder.inttoptr(address, ir.FunctionType(long, [long] * len(given)).as_pointer())
        return builder.call(function, given)

    return numba.int64(*(numba.int64,) * (1 + argument_count)), generate


@intrinsic  # type: ignore[arg-type, misc, unused-ignore] # as above
def _call_zstd(_context: Any, _function: Any, _state: Any, _target: Any, _room: Any, _source: Any, _size: Any) -> Any:
    """ZSTD_decompressDCtx at this address: how much it wrote, negative if something is wrong or it has no room."""
    return _call_of(5)


@intrinsic  # type: ignore[arg-type, misc, unused-ignore] # as above
def _call_zstd_frame_size(_context: Any, _function: Any, _source: Any, _size: Any) -> Any:
    """ZSTD_findFrameCompressedSize at this address: where the first frame ends, negative if something is wrong."""
    return _call_of(2)


@numba.njit(inline="always", nogil=True)
def _little_endian(data: Any, at: int) -> Any:
    """A number of four bytes without a sign."""
    return (
        np.int64(data[at])
        | (np.int64(data[at + 1]) << 8)
        | (np.int64(data[at + 2]) << 16)
        | (np.int64(data[at + 3]) << 24)
    )


@numba.njit(inline="always", nogil=True)
def _lz4_frame(  # noqa: PLR0917 - numba takes no keywords
    function: Any, data: Any, at: int, end: int, out: Any, start: int, room: int
) -> Any:
    """Blocks of 64 KiB that stand by themselves, without checksums but that of the header; negative if it is not so."""
    if end - at < 7 or _little_endian(data, at) != 0x184D2204 or _little_endian(data, at + 3) != 0x82406018:
        return np.int64(_FAILED)
    at += 7
    written = np.int64(0)
    while at + 4 <= end:
        size = _little_endian(data, at)
        at += 4
        if size == 0:
            return written if at == end else np.int64(_FAILED)
        stored = size & 0x7FFFFFFF
        most = min(np.int64(_LZ4_BLOCK_BYTES), room - written)
        if stored > min(np.int64(_LZ4_BLOCK_BYTES), end - at):
            return np.int64(_FAILED)
        count = stored
        if size == stored:
            count = _call_lz4(  # type: ignore[call-arg]
                function, data.ctypes.data + at, out.ctypes.data + start + written, stored, most
            )
        elif stored <= most:
            _copy(out, start + written, data, at, stored)  # type: ignore[call-arg]
        if count < 0 or count > most:
            return np.int64(_FAILED)
        at += stored
        written += count
    return np.int64(_FAILED)


@numba.njit(inline="always", nogil=True)
def _zstd_frame(  # noqa: PLR0917 - as above
    function: Any, frame_size: Any, state: Any, data: Any, at: int, end: int, out: Any, start: int, room: int
) -> Any:
    """Negative if more follows it, or it may refer to what was 16 MiB before: what is too much is not known here."""
    source, size = data.ctypes.data + at, np.int64(end - at)
    if size < 6 or _little_endian(data, at) != 0xFD2FB528 or ((data[at + 4] & 0x20) == 0 and (data[at + 5] >> 3) > 13):
        return np.int64(_FAILED)
    found: Any = _call_zstd_frame_size(frame_size, source, size)  # type: ignore[call-arg]
    if found != size:
        return np.int64(_FAILED)
    return _call_zstd(function, state, out.ctypes.data + start, room, source, size)  # type: ignore[call-arg, unused-ignore]


@numba.njit(
    numba.types.UniTuple(numba.int64, 2)(_BYTES, _TABLE, *(numba.int64,) * 4, _OUT_BYTES, *(numba.int64,) * 3, _TABLE),
    cache=True,
    nogil=True,
)
def decompress(  # noqa: PLR0917 - numba takes no keywords
    data: Any,
    batches: Any,
    lz4: int,
    zstd: int,
    zstd_frame_size: int,
    zstd_state: int,
    out: Any,
    used: Any,
    enough: int,
    most: int,
    spans: Any,
) -> Any:
    """Of batches, until `out` has enough or one is not as usual; how many, and where they end in `out`."""
    for batch in range(batches.shape[0]):
        if used >= enough:
            return batch, used
        at, end, codec = batches[batch, 0], batches[batch, 1], batches[batch, 14] & 7
        room = max(min(out.shape[0] - used, most), 0)  # which C would take for a very large number
        written = np.int64(_FAILED)
        if codec == _LZ4 and lz4 != 0:
            written = _lz4_frame(lz4, data, at, end, out, used, room)
        elif codec == _ZSTD and zstd != 0:
            written = _zstd_frame(zstd, zstd_frame_size, zstd_state, data, at, end, out, used, room)
        if written < 0:
            return batch, used
        spans[batch, 0], spans[batch, 1] = used, used + written
        used += written
    return batches.shape[0], used
