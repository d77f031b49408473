"""A stream's offsets in checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.errors import InvalidField
from tiergate_spark.offsets import offsets_json, parse_offsets
from tiergate_spark.stream_offsets import partition_numbers, stream_offset

NUMBERS = st.dictionaries(
    st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,9}", fullmatch=True), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1),
)


@given(NUMBERS)
def test_numbers_come_back_from_what_a_checkpoint_keeps(numbers: dict[tuple[str, int], int]) -> None:
    kept = json.dumps(stream_offset(numbers))
    assert partition_numbers(json.loads(kept)) == numbers
    assert parse_offsets("startingOffsets", kept) == parse_offsets("startingOffsets", offsets_json(numbers))


def test_text_is_kafkas_in_the_order_of_names_and_numbers() -> None:
    offset = stream_offset({("b", 10): 3, ("a", 0): 1, ("b", 9): 2})
    assert json.dumps(offset, separators=(",", ":")) == '{"a":{"0":1},"b":{"9":2,"10":3}}'


@pytest.mark.parametrize(
    "kept",
    [{"logOffset": 7}, {"a": {"x": 1}}, {"a": {"0": "1"}}, {"a": {"0": -1}}, {"a": {"0": True}}, {"a": {"0": 1.5}}],
)
def test_checkpoint_of_another_source_is_refused(kept: dict[str, Any]) -> None:
    with pytest.raises(InvalidField, match=r"checkpoint: .* is no offset such as"):
        partition_numbers(kept)
