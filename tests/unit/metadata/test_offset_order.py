"""The order against a sorted list of pairs, over random changes that make it cut off its dead front too."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from tiergate_server.metadata.offset_order import OffsetOrder

offsets = st.integers(0, 8)
raw_ids = st.sampled_from([b"a", b"b", b"c"])
changes = st.lists(st.tuples(st.sampled_from(["add", "discard", "remove first", "remove last"]), offsets, raw_ids))


@given(changes=changes, long_front=st.booleans())
def test_every_answer_is_that_of_a_sorted_list(changes: list[tuple[str, int, bytes]], long_front: bool) -> None:
    order = OffsetOrder()
    pairs: list[tuple[int, bytes]] = []
    if long_front:
        for offset in range(-200, 0):
            order.add(offset, b"front")
        for offset in range(-200, -1):
            order.discard(offset, b"front")
        pairs = [(-1, b"front")]
    for change, offset, raw_id in changes:
        if change == "add":
            order.add(offset, raw_id)
            pairs = sorted({*pairs, (offset, raw_id)})
        elif change == "discard":
            order.discard(offset, raw_id)
            pairs = [pair for pair in pairs if pair != (offset, raw_id)]
        elif change == "remove first" and pairs:
            order.discard(*pairs.pop(0))
        elif change == "remove last" and pairs:
            order.remove_last()
            pairs.pop()
        assert_same(order, pairs)


def assert_same(order: OffsetOrder, pairs: list[tuple[int, bytes]]) -> None:
    ids = [raw_id for _, raw_id in pairs]
    assert list(order) == ids
    assert len(order) == len(ids)
    assert order.last_offset() == (pairs[-1][0] if pairs else None)
    assert order.first_after(None, limit=3) == ids[:3]
    for offset in range(-2, 10):
        below = [raw_id for at, raw_id in pairs if at <= offset]
        exactly = [raw_id for at, raw_id in pairs if at == offset]
        assert order.floor(offset) == (below[-1] if below else None)
        assert order.at(offset) == (exactly[0] if exactly else None)
        for raw_id in (b"", b"b"):
            position = bisect_right(pairs, (offset, raw_id))
            assert order.first_after((offset, raw_id), limit=2) == ids[position : position + 2]


def test_kept_id_is_the_very_object_that_was_added() -> None:
    order = OffsetOrder()
    kept = bytes(range(16))
    order.add(5, kept)
    order.add(5, b"other")
    assert order.kept_id(5, bytes(bytearray(kept))) is kept
