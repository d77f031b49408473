"""Frames that are decompressed by lz4 and zstandard: pyarrow, which reads all forms, says the same of every one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.lz4_frames import stored_frame
from support.record_batches import compress, zstd_without_content_size
from tiergate_client.records import Codec
from tiergate_client.records.decompression import CanNotDecompress, Decompressor
from tiergate_client.records.usual_frames import usual_frames

LZ4, ZSTD = usual_frames()[Codec.LZ4], usual_frames()[Codec.ZSTD]
ROOM = 300_000
PLAIN = bytes(range(200)) * 400
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_END = bytes(4)


def room() -> memoryview:
    return memoryview(bytearray(ROOM))


def thorough(codec: Codec, body: bytes, monkeypatch: pytest.MonkeyPatch) -> bytes | None:
    """None if it is refused."""
    with monkeypatch.context() as patched:
        patched.setattr("tiergate_client.records.decompression.usual_frames", dict)
        decompressor = Decompressor(max_bytes_per_batch=ROOM)
        try:
            decompressor.append(codec, memoryview(body))
        except CanNotDecompress:
            return None
        return decompressor.data.tobytes()


def lz4_frame(*blocks: bytes) -> bytes:
    """As producers have it; blocks come with their sizes."""
    return b"".join([_LZ4_HEADER, *blocks, _LZ4_END])


def lz4_block(content: bytes, *, size: int | None = None) -> bytes:
    """Stored, if its size does not say otherwise."""
    return struct.pack("<I", len(content) | 1 << 31 if size is None else size) + content


@pytest.mark.parametrize("plain", [b"", b"x", PLAIN, bytes(200_000)])
def test_usual_frames_are_decompressed(plain: bytes) -> None:
    pieces = [plain[at : at + 65536] for at in range(0, len(plain), 65536)]
    for into, body in (
        (LZ4, lz4_frame(*map(lz4_block, pieces))),
        (ZSTD, zstd_without_content_size(plain)),
        (ZSTD, compress(Codec.ZSTD, plain)),
    ):
        target = room()
        assert into(memoryview(body), target) == len(plain)
        assert target[: len(plain)] == plain


@pytest.mark.parametrize("missing", [0, 1])
def test_room_that_may_be_too_small_is_told(missing: int) -> None:
    size = len(PLAIN) - missing
    small = memoryview(bytearray(size))
    assert ZSTD(memoryview(compress(Codec.ZSTD, PLAIN)), small) is None  # there might be more
    stored = memoryview(lz4_frame(lz4_block(PLAIN[:65536]), lz4_block(PLAIN[65536:])))
    assert LZ4(stored, small) == (None if missing else size)


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
    assert LZ4(memoryview(body), room()) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x28\xb5\x2f\xfd",
        compress(Codec.ZSTD, PLAIN)[:-1],
        compress(Codec.ZSTD, PLAIN) + b"more",
        compress(Codec.ZSTD, PLAIN) * 2,
        b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + compress(Codec.ZSTD, PLAIN),
        zstd_without_content_size(PLAIN)[:-3],
    ],
)
def test_other_frames_of_zstd_are_left_to_the_thorough_one(body: bytes) -> None:
    assert ZSTD(memoryview(body), room()) is None


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
    | st.tuples(st.just(Codec.ZSTD), _damaged(zstd_without_content_size(_TEXT)))
)
@example((Codec.LZ4, lz4_frame(lz4_block(_TEXT), lz4_block(b"\x1fA\x01\x00\x07\x60BBBBBB", size=12))))
def test_what_is_decompressed_here_the_thorough_one_reads_alike(case: tuple[Codec, bytes]) -> None:
    codec, body = case
    target = room()
    written = usual_frames()[codec](memoryview(body), target)
    if written is not None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            assert thorough(codec, body, monkeypatch) == bytes(target[:written])
