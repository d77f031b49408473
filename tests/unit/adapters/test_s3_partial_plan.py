from __future__ import annotations

import base64
import random

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tiergate_server.adapters.s3_partial import PartPlan, S3PartialHandle

MIB = 1024 * 1024
CONTENT = random.Random(5).randbytes(9 * MIB + 12345)


@given(size_bytes=st.integers(1, len(CONTENT)), part_mebibytes=st.integers(1, 12))
def test_parts_make_up_the_object_and_their_checksums_are_those_of_their_bytes(
    size_bytes: int, part_mebibytes: int
) -> None:
    blocks = [crc32c(CONTENT[start : min(start + MIB, size_bytes)]) for start in range(0, size_bytes, MIB)]
    plan = PartPlan(size_bytes, part_mebibytes * MIB, blocks)
    position = 0
    for number in range(1, plan.count + 1):
        part = CONTENT[position : position + plan.size_of(number)]
        assert base64.b64decode(plan.checksum_of(number)) == crc32c(part).to_bytes(4, "big")
        position += len(part)
    assert position == size_bytes


@given(upload_id=st.text(), part_bytes=st.none() | st.integers(1))
def test_handle_is_read_back(upload_id: str, part_bytes: int | None) -> None:
    handle = S3PartialHandle(upload_id, part_bytes)
    assert S3PartialHandle.from_text(handle.to_text()) == handle
