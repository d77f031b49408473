from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_server.adapters.s3_settings import LARGEST_PART_BYTES, MOST_PARTS, SMALLEST_PART_BYTES, S3Settings

MEBIBYTE = 1024**2
TEBIBYTE = 1024**4


part_sizes = st.integers(SMALLEST_PART_BYTES // MEBIBYTE, LARGEST_PART_BYTES // MEBIBYTE).map(MEBIBYTE.__mul__)


@given(part_bytes=part_sizes)
def test_parts_stay_within_the_limits_and_make_any_object(part_bytes: int) -> None:
    settings = S3Settings(bucket="b", part_bytes=part_bytes)
    sizes = [settings.size_of_part(number) for number in range(1, MOST_PARTS + 1)]
    assert sizes[0] == part_bytes
    assert sizes == sorted(sizes)
    assert sizes[-1] <= LARGEST_PART_BYTES
    assert sum(sizes) > 4.8 * TEBIBYTE


def test_segment_of_kafkas_largest_size_has_equal_parts() -> None:
    settings = S3Settings(bucket="b")
    assert {settings.size_of_part(number) for number in range(1, 2**31 // settings.part_bytes + 1)} == {8 << 20}


@pytest.mark.parametrize("part_bytes", [0, SMALLEST_PART_BYTES - 1, LARGEST_PART_BYTES + 1])
def test_part_size_outside_the_limits_is_refused(part_bytes: int) -> None:
    with pytest.raises(ValueError, match="outside S3's limits"):
        S3Settings(bucket="b", part_bytes=part_bytes)


def test_part_size_that_is_not_made_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="whole mebibytes"):
        S3Settings(bucket="b", part_bytes=SMALLEST_PART_BYTES + 1)


@given(part_bytes=part_sizes, size_bytes=st.integers(1, 5 * TEBIBYTE))
def test_equal_parts_of_an_object_grow_only_where_there_would_be_too_many(part_bytes: int, size_bytes: int) -> None:
    chosen = S3Settings(bucket="b", part_bytes=part_bytes).part_bytes_for(size_bytes)
    assert chosen % MEBIBYTE == 0
    assert -(-size_bytes // chosen) <= MOST_PARTS
    assert chosen == part_bytes or -(-size_bytes // (chosen - MEBIBYTE)) > MOST_PARTS
    assert chosen <= LARGEST_PART_BYTES


def test_objects_are_stored_as_the_settings_say() -> None:
    settings = S3Settings(
        bucket="b", sse="aws:kms", sse_kms_key_id="key", storage_class="STANDARD_IA", tags={"team": "a & b", "x": ""}
    )
    assert settings.stored_as == {
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "key",
        "StorageClass": "STANDARD_IA",
        "Tagging": "team=a+%26+b&x=",
    }
    assert S3Settings(bucket="b").stored_as == {}


@pytest.mark.parametrize("threshold", [-1, LARGEST_PART_BYTES + 1])
def test_threshold_outside_the_limits_is_refused(threshold: int) -> None:
    with pytest.raises(ValueError, match="outside S3's limits"):
        S3Settings(bucket="b", multipart_threshold_bytes=threshold)
