from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiergate_client._direct_buffers import BlockBuffers


def test_buffer_is_filled_again_when_its_last_view_is_gone() -> None:
    buffers = BlockBuffers(16)
    first = buffers.take()
    view = memoryview(first)[2:5]
    assert buffers.take() is not first
    del view
    assert buffers.take() is first
    assert len(first) == 16


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=40))
def test_bytes_that_somebody_looks_at_never_change(steps: list[tuple[bool, int]]) -> None:
    """The caller keeps some views and lets go of others, in any order; each block is filled with its own number."""
    buffers = BlockBuffers(4)
    held: list[tuple[int, memoryview]] = []
    for number, (is_kept, dropped) in enumerate(steps):
        buffer = buffers.take()
        buffer[:] = bytes([number]) * 4
        if is_kept:
            held.append((number, memoryview(buffer)[1:].toreadonly()))
        elif dropped < len(held):
            del held[dropped]
        del buffer
        assert all(view == bytes([kept]) * 3 for kept, view in held)
