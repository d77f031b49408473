"""Every form of compressed records that producers write is read, and none grows beyond its limit."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pyarrow as pa
import pytest

from support.decoding_memory import watched_memory
from support.lz4_frames import stored_frame, xxhash32
from support.record_batches import (
    MadeBatch,
    MadeRecord,
    compress,
    raw_snappy,
    xerial_frame,
    zstd_without_content_size,
)
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import Codec, decode_batches
from tiergate_client.records.batch_table import ATTRIBUTES, END, TABLE_COLUMNS
from tiergate_client.records.decompression import CanNotDecompress, Decompressor
from tiergate_client.records.engines import engine

PLAIN = b"some text that repeats itself, some text that repeats itself; " * 50
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


def decompressed(codec: Codec, body: bytes, *, limit: int = 1 << 20) -> bytes:
    """Also where compiled loops do a part of the work. Raises CanNotDecompress."""
    batches = np.zeros((1, TABLE_COLUMNS), np.int64)
    batches[0, END], batches[0, ATTRIBUTES] = len(body), codec
    other = Decompressor(max_bytes_per_batch=limit, frames=engine("numba").frames())
    spans, reason = other.append_all(np.frombuffer(body or b"-", np.uint8), batches, enough=limit)
    decompressor = Decompressor(max_bytes_per_batch=limit)
    if reason is not None:
        with pytest.raises(CanNotDecompress) as refused:
            decompressor.append(codec, memoryview(body))
        assert str(refused.value) == reason
        raise refused.value
    try:
        start, end = decompressor.append(codec, memoryview(body))
    except CanNotDecompress as error:
        pytest.fail(f"compiled loops take what pyarrow refuses: {error}")
    assert spans.tolist() == [[start, end]]
    assert other.data.tobytes() == decompressor.data.tobytes()
    return decompressor.data[start:end].tobytes()


def zstd_with_content_size(plain: bytes) -> bytes:
    return bytes(pa.compress(plain, codec="zstd"))


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        (Codec.GZIP, gzip.compress(PLAIN, mtime=0)),
        (Codec.GZIP, gzip.compress(PLAIN[:100], mtime=0) + gzip.compress(PLAIN[100:], mtime=0)),
        (Codec.SNAPPY, raw_snappy(PLAIN)),
        (Codec.SNAPPY, xerial_frame([PLAIN])),
        (Codec.SNAPPY, xerial_frame([PLAIN[:7], b"", PLAIN[7:900], PLAIN[900:]])),
        (Codec.LZ4, compress(Codec.LZ4, PLAIN)),
        (Codec.LZ4, stored_frame([PLAIN[:9], PLAIN[9:]])),
        (Codec.ZSTD, zstd_without_content_size(PLAIN)),
        (Codec.ZSTD, zstd_with_content_size(PLAIN)),
        (Codec.ZSTD, zstd_without_content_size(PLAIN[:500]) + zstd_with_content_size(PLAIN[500:])),
    ],
)
def test_body_is_what_was_compressed(codec: Codec, body: bytes) -> None:
    assert decompressed(codec, body) == PLAIN


def test_zstd_frame_that_needs_too_much_memory_is_refused_wherever_it_stands() -> None:
    wide = bytearray(zstd_without_content_size(PLAIN))
    wide[5] = 21 << 3  # it may refer to what was 2 GiB before
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"
    for before in (b"", zstd_without_content_size(PLAIN), zstd_with_content_size(b"x"), skipped):
        with pytest.raises(CanNotDecompress, match="too much memory"):
            decompressed(Codec.ZSTD, before + bytes(wide))


@pytest.mark.parametrize("block_size_id", [4, 5, 6, 7])
@pytest.mark.parametrize("checksums", [(False, False), (True, False), (False, True), (True, True)])
def test_lz4_frames_with_any_options_are_read(block_size_id: int, checksums: tuple[bool, bool]) -> None:
    blocks = [b"a" * 65536, b"b" * 65536, PLAIN]
    frame = stored_frame(
        blocks,
        block_checksums=checksums[0],
        content_checksum=checksums[1],
        content_size=block_size_id % 2 == 0,
        block_size_id=block_size_id,
    )
    assert decompressed(Codec.LZ4, frame) == b"".join(blocks)


def test_documented_lz4_header_is_what_the_test_frames_begin_with() -> None:
    assert xxhash32(b"") == 0x02CC5D05
    assert stored_frame([b"x"]).startswith(bytes.fromhex("04224d18604082"))


@pytest.mark.parametrize("option", ["block_checksums", "content_checksum"])
def test_lz4_frame_with_a_wrong_checksum_is_refused(option: str) -> None:
    frame = bytearray(stored_frame([PLAIN], **{option: True}))
    frame[-5 if option == "block_checksums" else -1] ^= 1
    with pytest.raises(CanNotDecompress, match="lz4"):
        decompressed(Codec.LZ4, bytes(frame))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_body_that_is_cut_or_followed_by_noise_is_refused(codec: Codec) -> None:
    body = compress(codec, PLAIN)
    for damaged in (body[:-1], body[: len(body) // 2], body[:1], b"", body + b"\x01\x02\x03"):
        with pytest.raises(CanNotDecompress):
            decompressed(codec, damaged)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bodies_stand_one_behind_the_other_and_a_refused_one_leaves_no_trace(codec: Codec) -> None:
    decompressor = Decompressor()
    assert decompressor.append(Codec.NONE, memoryview(b"first")) == (0, 5)
    with pytest.raises(CanNotDecompress):
        decompressor.append(codec, memoryview(compress(codec, PLAIN)[:-2]))
    assert decompressor.append(codec, memoryview(compress(codec, PLAIN))) == (5, 5 + len(PLAIN))
    assert decompressor.data.tobytes() == b"first" + PLAIN


@pytest.mark.parametrize("codec", COMPRESSED)
def test_limit_is_what_a_batch_may_become_at_most(codec: Codec) -> None:
    body = compress(codec, PLAIN)
    assert decompressed(codec, body, limit=len(PLAIN)) == PLAIN
    with pytest.raises(CanNotDecompress, match=f"more than {len(PLAIN) - 1} bytes"):
        decompressed(codec, body, limit=len(PLAIN) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bomb_takes_little_memory_and_is_a_corrupt_batch(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    content = MadeBatch((MadeRecord(0),), attributes=int(codec), body=bomb).encode()
    list(decode_batches(MadeBatch((MadeRecord(0),)).encode()))  # loads what is loaded once
    with watched_memory() as memory:
        with pytest.raises(CorruptBatch, match="max_decompressed_bytes") as refused:
            list(decode_batches(content, max_decompressed_bytes=1 << 20))
        assert memory.size_bytes < 8 << 20
    assert refused.value.details["position"] == "0"


def test_snappy_block_that_claims_more_than_it_can_hold_is_refused_before_memory_is_taken() -> None:
    claim = b"\xff\xff\xff\x1f" + b"\x00" * 20
    for body in (claim, xerial_frame([])[:16] + struct.pack(">i", len(claim)) + claim):
        with pytest.raises(CanNotDecompress, match="claims to hold"):
            decompressed(Codec.SNAPPY, body, limit=1 << 30)


@pytest.mark.parametrize("length", [-1, 100, 2**31 - 1])
def test_snappy_frame_with_a_wrong_block_length_is_refused(length: int) -> None:
    with pytest.raises(CanNotDecompress, match=f"a snappy block has {length} bytes"):
        decompressed(Codec.SNAPPY, xerial_frame([])[:16] + struct.pack(">i", length) + b"x")
