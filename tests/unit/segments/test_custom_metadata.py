from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.errors import InvalidField, NotOffered
from tiergate_server.segments.custom_metadata import CustomMetadataV1

DIGEST = "000102030405060708090a0b0c0d0e0f"
GOLDEN = bytes.fromhex("01" + DIGEST + "07") + b"default"

digests = st.binary(min_size=16, max_size=16).map(bytes.hex)
store_names = st.text(st.characters(max_codepoint=127), min_size=1, max_size=64)


def test_custom_metadata_has_exactly_these_bytes() -> None:
    assert CustomMetadataV1(DIGEST).to_bytes() == GOLDEN
    assert CustomMetadataV1.from_bytes(GOLDEN) == CustomMetadataV1(DIGEST, "default")


@given(digest=digests, store_name=store_names)
def test_custom_metadata_is_read_back_and_stays_below_kafkas_limit(digest: str, store_name: str) -> None:
    custom = CustomMetadataV1(digest, store_name)
    assert len(custom.to_bytes()) <= 128
    assert CustomMetadataV1.from_bytes(custom.to_bytes()) == custom


@pytest.mark.parametrize("store_name", ["", "a" * 65, "größe"])
def test_store_name_that_is_not_short_ascii_is_refused(store_name: str) -> None:
    with pytest.raises(InvalidField, match="store_name"):
        CustomMetadataV1(DIGEST, store_name)


@pytest.mark.parametrize("digest", ["", DIGEST[:-1], DIGEST + "0", DIGEST.replace("a", "A")])
def test_digest_that_is_not_32_lowercase_hex_digits_is_refused(digest: str) -> None:
    with pytest.raises(InvalidField, match="upload_digest"):
        CustomMetadataV1(digest)


def test_newer_version_is_refused_by_name() -> None:
    with pytest.raises(NotOffered, match="version 2, of a newer release; this one reads 1"):
        CustomMetadataV1.from_bytes(b"\2" + GOLDEN[1:])


@pytest.mark.parametrize(
    "data", [b"", b"\1", b"\0" + GOLDEN[1:], GOLDEN[:-1], GOLDEN + b"x", GOLDEN[:17] + b"\0", GOLDEN[:-1] + b"\xff"]
)
def test_bytes_that_no_copy_returned_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidField):
        CustomMetadataV1.from_bytes(data)


@given(data=st.binary(max_size=130))
def test_arbitrary_bytes_are_refused_or_read_back_the_same(data: bytes) -> None:
    with suppress(InvalidField, NotOffered):
        assert CustomMetadataV1.from_bytes(data).to_bytes() == data
