from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.metadata_events import ids
from tiergate_client.errors import InvalidField
from tiergate_client.ids import KafkaUuid, LogId, SegmentId, TopicId


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("00000000000000000000000000000000", "AAAAAAAAAAAAAAAAAAAAAA"),
        ("ffffffffffffffffffffffffffffffff", "_____________________w"),
        ("00112233445566778899aabbccddeeff", "ABEiM0RVZneImaq7zN3u_w"),
        ("fbefbefbefbefbefbefbefbefbefbefb", "----------------------"[:21] + "w"),
    ],
)
def test_text_is_that_of_kafka(raw: str, text: str) -> None:
    assert str(TopicId(bytes.fromhex(raw))) == text
    assert TopicId.from_text(text) == TopicId(bytes.fromhex(raw))


@given(raw=ids)
def test_text_names_exactly_one_id(raw: bytes) -> None:
    segment_id = SegmentId(raw)
    assert len(str(segment_id)) == 22
    assert SegmentId.from_text(str(segment_id)) == segment_id
    assert SegmentId.from_text(str(segment_id)).raw == raw


@given(text=st.text())
def test_any_text_is_an_id_or_an_invalid_field(text: str) -> None:
    try:
        parsed = SegmentId.from_text(text)
    except InvalidField:
        return
    assert str(parsed) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAA==",
        "AAAAAAAAAAAAAAAAAAAA A",
        "AAAAAAAAAAAAAAAAAAAA/A",
        "AAAAAAAAAAAAAAAAAAAAéA",
        "00112233-4455-6677-8899-aabbccddeeff",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        SegmentId.from_text(text)


def test_second_spelling_of_an_id_is_refused_with_the_right_one() -> None:
    with pytest.raises(InvalidField, match="did you mean AAAAAAAAAAAAAAAAAAAAAA"):
        SegmentId.from_text("AAAAAAAAAAAAAAAAAAAAAB")


@pytest.mark.parametrize("length", [0, 15, 17])
def test_id_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(InvalidField, match=f"16 bytes, not {length}"):
        TopicId(bytes(length))


def test_kinds_of_ids_are_never_equal() -> None:
    kinds: list[type[KafkaUuid]] = [TopicId, SegmentId, LogId]
    different = {kind(bytes(16)) for kind in kinds}
    assert len(different) == 3


def test_random_ids_differ_and_do_not_look_like_a_flag() -> None:
    made = [SegmentId.random() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert not any(str(each).startswith("-") for each in made)
    assert all(isinstance(each, SegmentId) for each in made)


def test_id_survives_pickling() -> None:
    segment_id = SegmentId.random()
    assert pickle.loads(pickle.dumps(segment_id)) == segment_id  # noqa: S301
