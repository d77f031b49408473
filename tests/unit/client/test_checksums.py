"""Checksums of wholes from those of their parts."""

from __future__ import annotations

import random

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.checksums import crc32c_appended
from tiergate_client.segment_files import BLOCK_BYTES

BLOCKS = [random.Random(seed).randbytes(BLOCK_BYTES) for seed in range(3)]


def test_checksum_of_blocks_and_a_rest_is_that_of_the_whole() -> None:
    pieces = [*BLOCKS, b"the rest", b"", BLOCKS[1]]
    checksum = 0
    for piece in pieces:
        checksum = crc32c_appended(checksum, memoryview(piece), crc32c(piece))
    assert checksum == crc32c(b"".join(pieces))


@given(before=st.integers(0, 2**32 - 1), block=st.sampled_from(BLOCKS))
def test_appended_block_continues_any_checksum(before: int, block: bytes) -> None:
    assert crc32c_appended(before, block, crc32c(block)) == crc32c(block, before)


def test_appended_block_with_a_wrong_checksum_shows() -> None:
    block = BLOCKS[0]
    assert crc32c_appended(7, block, crc32c(block) ^ 1) != crc32c(block, 7)
