from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_server.adapters.s3_settings import LARGEST_PART_BYTES, MOST_PARTS, SMALLEST_PART_BYTES, S3Settings

TEBIBYTE = 1024**4


@given(part_bytes=st.integers(SMALLEST_PART_BYTES, LARGEST_PART_BYTES))
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


@pytest.mark.parametrize("threshold", [-1, LARGEST_PART_BYTES + 1])
def test_threshold_outside_the_limits_is_refused(threshold: int) -> None:
    with pytest.raises(ValueError, match="outside S3's limits"):
        S3Settings(bucket="b", multipart_threshold_bytes=threshold)
