from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidField

checkpointed = st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)).map(LeaderEpochs.of)


@st.composite
def histories(draw: st.DrawFn) -> LeaderEpochs:
    """Epochs as a log has them: epochs and starts both ascend."""
    epochs = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=8)))
    starts = sorted(draw(st.sets(st.integers(0, 40), min_size=len(epochs), max_size=len(epochs))))
    return LeaderEpochs(tuple(zip(epochs, starts, strict=True)))


def test_checkpoint_is_the_text_of_kafka() -> None:
    epochs = LeaderEpochs.of({3: 150, 0: 0})
    assert epochs.to_checkpoint() == b"0\n2\n0 0\n3 150\n"
    assert LeaderEpochs.from_checkpoint(b"0\n2\n0 0\n3 150\n") == epochs


@given(epochs=checkpointed)
def test_checkpoint_survives_the_way_there_and_back(epochs: LeaderEpochs) -> None:
    assert LeaderEpochs.from_checkpoint(epochs.to_checkpoint()) == epochs


@pytest.mark.parametrize("text", [b"", b"0\n0\n", b"0\n0"])
def test_checkpoint_without_entries_is_empty(text: bytes) -> None:
    assert LeaderEpochs.from_checkpoint(text) == LeaderEpochs(())


def test_last_line_feed_may_be_missing() -> None:
    assert LeaderEpochs.from_checkpoint(b"0\n1\n4 7") == LeaderEpochs.of({4: 7})


@pytest.mark.parametrize(
    "text",
    [
        b"0",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0 0\n3 150\n",
        b"0\n-1\n",
        b"0\nx\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0  0\n",
        b"0\n1\n2147483648 0\n",
        b"0\n1\n0 9223372036854775808\n",
        b"0\n2\n3 150\n0 0\n",
        b"0\n2\n3 150\n3 160\n",
        b"0\n1\n" + b"9" * 5000 + b" 0\n",
        b"0\n" + b"9" * 5000 + b"\n0 0\n",
    ],
)
def test_damaged_checkpoint_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidField):
        LeaderEpochs.from_checkpoint(text)


@given(text=st.binary() | st.text("0123456789 \n-").map(str.encode))
def test_any_bytes_are_a_checkpoint_or_an_invalid_field(text: bytes) -> None:
    try:
        epochs = LeaderEpochs.from_checkpoint(text)
    except InvalidField:
        return
    assert LeaderEpochs.from_checkpoint(epochs.to_checkpoint()) == epochs


@pytest.mark.parametrize("entries", [((1, 0), (0, 5)), ((1, 0), (1, 5))])
def test_epochs_that_do_not_ascend_are_refused(entries: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InvalidField, match="epochs ascend"):
        LeaderEpochs(entries)


@pytest.mark.parametrize("entry", [(2**31, 0), (-(2**31) - 1, 0), (0, 2**63), (0, -(2**63) - 1)])
def test_numbers_that_do_not_fit_are_refused(entry: tuple[int, int]) -> None:
    with pytest.raises(InvalidField):
        LeaderEpochs((entry,))


def test_ranges_end_before_the_next_epoch_or_with_the_segment() -> None:
    epochs = LeaderEpochs.of({0: 0, 1: 20, 2: 80})
    assert list(epochs.ranges(100)) == [(0, 0, 19), (1, 20, 79), (2, 80, 100)]


def epoch_of(history: LeaderEpochs, offset: int) -> int | None:
    return max((epoch for epoch, start in history if start <= offset), default=None)


@given(history=histories(), start=st.integers(0, 50), length=st.integers(0, 20))
def test_within_gives_each_offset_the_epoch_of_the_history(history: LeaderEpochs, start: int, length: int) -> None:
    end = start + length
    clipped = history.within(start, end)
    for offset in range(start, end + 1):
        assert epoch_of(clipped, offset) == epoch_of(history, offset)
    assert all(start <= first <= end for _, first in clipped)


@given(history=histories(), end=st.integers(-1, 50))
def test_up_to_keeps_the_history_to_the_end_and_nothing_behind(history: LeaderEpochs, end: int) -> None:
    kept = history.up_to(end)
    assert all(start <= end for _, start in kept)
    for offset in range(end + 1):
        assert epoch_of(kept, offset) == epoch_of(history, offset)
    assert kept.entries == history.entries[: len(kept)]
