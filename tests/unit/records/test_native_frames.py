"""Frames that compiled loops decompress: pyarrow, which reads all forms, says the same of every one."""

from __future__ import annotations

import gzip
import struct
import sys
from types import SimpleNamespace

import lz4.block
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.lz4_frames import stored_frame
from support.record_batches import compress, zstd_without_content_size
from tiergate_client.errors import InvalidField
from tiergate_client.records import Codec, native_codecs
from tiergate_client.records.batch_table import ATTRIBUTES, END, START, TABLE_COLUMNS
from tiergate_client.records.decompression import CanNotDecompress, Decompressor
from tiergate_client.records.engines import engine
from tiergate_client.records.native_codecs import NativeCodecs, _library
from tiergate_client.records.record_columns import Bytes, Longs
from tiergate_client.records.record_decoder import RecordDecoder

ROOM = 300_000
PLAIN = bytes(range(200)) * 400
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_END = bytes(4)
_SKIPPED_ZSTD_FRAME = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"


def batches_of(*bodies: tuple[Codec, bytes]) -> tuple[Bytes, Longs]:
    """The bytes, and a table that says of them what is asked of it here."""
    ends = np.cumsum([len(body) for _, body in bodies])
    table = np.zeros((len(bodies), TABLE_COLUMNS), np.int64)
    table[:, START], table[:, END] = np.append(0, ends[:-1]), ends
    table[:, ATTRIBUTES] = [codec for codec, _ in bodies]
    return np.frombuffer(b"".join(body for _, body in bodies) or b"-", np.uint8), table


def decompressed(codec: Codec, *bodies: bytes, room: int = ROOM, enough: int = ROOM) -> list[bytes]:
    """Of those at the beginning that are done natively."""
    frames = engine("numba").frames()
    assert frames is not None
    data, table = batches_of(*((codec, body) for body in bodies))
    out, spans = np.zeros(room + 16, np.uint8), np.empty((len(bodies), 2), np.int64)
    count, used = frames.decompress(data, table, out[:room], used=0, enough=enough, most=room, spans=spans)
    assert not out[room:].any()
    assert used == (spans[count - 1, 1] if count else 0)
    return [out[begin:end].tobytes() for begin, end in spans[:count].tolist()]


def thorough(codec: Codec, body: bytes) -> bytes | None:
    """None if it is refused."""
    decompressor = Decompressor(max_bytes_per_batch=ROOM)
    try:
        decompressor.append(codec, memoryview(body))
    except CanNotDecompress:
        return None
    return decompressor.data.tobytes()


def lz4_frame(*blocks: bytes) -> bytes:
    """As producers have it; blocks come with their sizes."""
    return b"".join([_LZ4_HEADER, *blocks, _LZ4_END])


def compressed_lz4_block(content: bytes) -> bytes:
    packed: bytes = lz4.block.compress(content, store_size=False)
    return struct.pack("<I", len(packed)) + packed


def wide_zstd_frame(content: bytes) -> bytes:
    """Which says that it may refer to what was 16 MiB before."""
    frame = bytearray(zstd_without_content_size(content))
    assert frame[4] & 0x20 == 0
    frame[5] = 14 << 3
    return bytes(frame)


def with_content_size(plain: bytes) -> bytes:
    return bytes(pa.compress(plain, codec="zstd"))


def lz4_block(content: bytes, *, size: int | None = None) -> bytes:
    """Stored, if its size does not say otherwise."""
    return struct.pack("<I", len(content) | 1 << 31 if size is None else size) + content


@pytest.mark.parametrize("plain", [b"", b"x", PLAIN, bytes(200_000)])
def test_usual_frames_are_decompressed(plain: bytes) -> None:
    pieces = [plain[at : at + 65536] for at in range(0, len(plain), 65536)]
    for codec, body in (
        (Codec.LZ4, lz4_frame(*map(lz4_block, pieces))),
        (Codec.LZ4, lz4_frame(*map(compressed_lz4_block, pieces))),
        (Codec.ZSTD, zstd_without_content_size(plain)),
        (Codec.ZSTD, compress(Codec.ZSTD, plain)),
        (Codec.ZSTD, with_content_size(plain)),
    ):
        assert decompressed(codec, body) == [plain]
        assert thorough(codec, body) == plain


@pytest.mark.parametrize("missing", [0, 1])
def test_frame_that_has_no_room_is_left_to_the_thorough_one(missing: int) -> None:
    room = 2 * len(PLAIN) - missing
    stored = lz4_frame(lz4_block(PLAIN[:65536]), lz4_block(PLAIN[65536:]))
    packed = lz4_frame(compressed_lz4_block(PLAIN[:65536]), compressed_lz4_block(PLAIN[65536:]))
    for codec, body in ((Codec.LZ4, stored), (Codec.LZ4, packed), (Codec.ZSTD, compress(Codec.ZSTD, PLAIN))):
        assert decompressed(codec, body, body, room=room) == [PLAIN] * (2 - missing)


def test_it_ends_with_the_frame_with_which_there_is_enough() -> None:
    body = compress(Codec.ZSTD, PLAIN)
    assert decompressed(Codec.ZSTD, body, body, body, enough=len(PLAIN)) == [PLAIN]
    assert decompressed(Codec.ZSTD, body, body, body, enough=len(PLAIN) + 1) == [PLAIN] * 2


def test_it_ends_before_what_is_unusual() -> None:
    body = compress(Codec.ZSTD, PLAIN)
    assert decompressed(Codec.ZSTD, body, body[:-1], body) == [PLAIN]
    assert decompressed(Codec.GZIP, body) == []


def test_limit_below_zero_is_no_room() -> None:
    frames = engine("numba").frames()
    assert frames is not None
    data, table = batches_of((Codec.ZSTD, compress(Codec.ZSTD, PLAIN)), (Codec.LZ4, lz4_frame(lz4_block(PLAIN[:9]))))
    for batch in (table[:1], table[1:]):
        out, spans = np.zeros(ROOM, np.uint8), np.empty((1, 2), np.int64)
        assert frames.decompress(data, batch, out, used=0, enough=ROOM, most=-1, spans=spans) == (0, 0)
        assert not out.any()


@pytest.mark.parametrize("limit", [-1, 2**31])
def test_limit_that_no_column_keeps_to_is_refused(limit: int) -> None:
    with pytest.raises(InvalidField, match="max_decompressed_bytes"):
        RecordDecoder(("offset",), max_decompressed_bytes=limit)


def test_codec_is_left_to_the_thorough_one_when_its_frames_are_unusual_again_and_again() -> None:
    class Refusing:
        codecs = frozenset({Codec.LZ4})
        asked = 0

        def decompress(self, *_: object, used: int, **__: object) -> tuple[int, int]:
            self.asked += 1
            return 0, used

    refusing = Refusing()
    decompressor = Decompressor(frames=refusing)
    spans, reason = decompressor.append_all(*batches_of(*[(Codec.LZ4, lz4_frame(lz4_block(b"x")))] * 50), enough=1000)
    assert reason is None
    assert spans.tolist() == [[number, number + 1] for number in range(50)]
    assert refusing.asked == 3


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_batches_of_any_kind_are_appended_in_their_order(codec: Codec) -> None:
    usual = lz4_frame(lz4_block(b"stored")) if codec is Codec.LZ4 else compress(codec, b"stored")
    unusual = stored_frame([b"checked"], content_checksum=True) if codec is Codec.LZ4 else wide_zstd_frame(b"checked")
    others = [(Codec.NONE, b"plain"), (Codec.GZIP, gzip.compress(b"zipped"))]
    data, table = batches_of(*[(codec, usual), (codec, unusual), *others] * 2)
    decompressor = Decompressor(frames=engine("numba").frames())
    spans, reason = decompressor.append_all(data, table, enough=1000)
    assert reason is None
    found = [decompressor.data[begin:end].tobytes() for begin, end in spans.tolist()]
    assert found == [b"stored", b"checked", b"plain", b"zipped"] * 2

    decompressor.clear()
    table[5, END] -= 1
    spans, reason = decompressor.append_all(data, table, enough=1000)
    assert len(spans) == 5
    assert reason is not None
    assert codec.name.lower() in reason


@pytest.mark.parametrize(
    "body",
    [
        b"",
        _LZ4_HEADER,
        lz4_frame()[:-1],
        lz4_frame() + b"more",
        lz4_frame() + lz4_frame(),
        lz4_frame(lz4_block(bytes(65537))),
        lz4_frame(lz4_block(b"\x10", size=1)),
        lz4_frame(lz4_block(b"", size=5)),
        lz4_frame(lz4_block(b"", size=5 | 1 << 31)),
        lz4_frame(lz4_block(bytes([0xF0]) + b"\xff" * 65600, size=65601)),
        stored_frame([b"with other options"], content_checksum=True),
    ],
)
def test_other_frames_of_lz4_are_left_to_the_thorough_one(body: bytes) -> None:
    assert decompressed(Codec.LZ4, body) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x28\xb5\x2f\xfd",
        wide_zstd_frame(PLAIN),
        compress(Codec.ZSTD, PLAIN)[:-1],
        compress(Codec.ZSTD, PLAIN) + b"more",
        compress(Codec.ZSTD, PLAIN) + compress(Codec.ZSTD, PLAIN),
        compress(Codec.ZSTD, PLAIN) + compress(Codec.ZSTD, b""),
        compress(Codec.ZSTD, PLAIN) + wide_zstd_frame(PLAIN),
        compress(Codec.ZSTD, PLAIN) + _SKIPPED_ZSTD_FRAME,
        _SKIPPED_ZSTD_FRAME + compress(Codec.ZSTD, PLAIN),
        _SKIPPED_ZSTD_FRAME,
        zstd_without_content_size(PLAIN)[:-3],
    ],
)
def test_other_frames_of_zstd_are_left_to_the_thorough_one(body: bytes) -> None:
    assert decompressed(Codec.ZSTD, body) == []


def _damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    def changed(edits: list[tuple[int, int]], cut: int, more: bytes) -> bytes:
        content = bytearray(whole)
        for at, bits in edits:
            content[at % len(content)] ^= bits
        return bytes(content[: len(content) - cut]) + more

    edits = st.lists(st.tuples(st.integers(0, 40) | st.integers(0, len(whole)), st.integers(1, 255)), max_size=3)
    return st.builds(changed, edits, st.integers(0, 9), st.binary(max_size=3))


_TEXT = b"some text that repeats itself, some text that repeats itself; " * 9


@given(
    st.sampled_from([Codec.LZ4, Codec.ZSTD]).flatmap(
        lambda codec: st.tuples(st.just(codec), _damaged(compress(codec, _TEXT)))
    )
    | st.tuples(
        st.just(Codec.LZ4), _damaged(lz4_frame(lz4_block(_TEXT), lz4_block(b"\x1fA\x01\x00\x07\x60BBBBBB", size=12)))
    )
    | st.tuples(st.just(Codec.ZSTD), _damaged(with_content_size(_TEXT)))
    | st.tuples(st.just(Codec.ZSTD), _damaged(zstd_without_content_size(_TEXT) + zstd_without_content_size(_TEXT)))
)
@example((Codec.LZ4, lz4_frame(lz4_block(_TEXT), lz4_block(b"\x1fA\x01\x00\x07\x60BBBBBB", size=12))))
def test_what_is_decompressed_here_the_thorough_one_reads_alike(case: tuple[Codec, bytes]) -> None:
    codec, body = case
    for plain in decompressed(codec, body):
        assert thorough(codec, body) == plain


@pytest.mark.parametrize(("missing", "left"), [("lz4.block._block", Codec.ZSTD), ("zstandard._cffi", Codec.LZ4)])
def test_codec_whose_package_is_missing_is_left_to_the_thorough_one(
    monkeypatch: pytest.MonkeyPatch, missing: str, left: Codec
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    _library.cache_clear()
    try:
        assert NativeCodecs().codecs == {left}
    finally:
        monkeypatch.undo()
        _library.cache_clear()
    assert NativeCodecs().codecs == {Codec.LZ4, Codec.ZSTD}


def test_zstd_is_left_to_the_thorough_one_where_its_library_does_not_show_all_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = ("ZSTD_decompressDCtx", "ZSTD_createDCtx", "ZSTD_freeDCtx", "LZ4_decompress_safe")

    def library(module: str) -> SimpleNamespace:
        whole = _library(module)
        return SimpleNamespace(**{name: getattr(whole, name) for name in shown if hasattr(whole, name)})

    monkeypatch.setattr(native_codecs, "_library", library)
    assert NativeCodecs().codecs == {Codec.LZ4}
