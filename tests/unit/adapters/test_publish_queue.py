from __future__ import annotations

import pytest

from tiergate_client.errors import MetadataLogUnavailable
from tiergate_server.adapters.publish_queue import PendingRecord, PublishQueue


def put(queue: PublishQueue, *values: bytes) -> list[PendingRecord]:
    items = [PendingRecord(0, value) for value in values]
    for item in items:
        queue.put(item)
    return items


def test_a_full_queue_fails_the_future_and_takes_more_after_it_was_emptied() -> None:
    queue = PublishQueue(max_queued_records=2)
    *kept, refused = put(queue, b"a", b"b", b"c")
    error = refused.future.exception(0)
    assert isinstance(error, MetadataLogUnavailable)
    assert error.retry_after_ms == 100
    assert queue.take() == kept
    assert put(queue, b"d") == queue.take()


def test_the_queue_is_bounded_in_bytes_but_always_takes_one() -> None:
    queue = PublishQueue(max_queued_bytes=10)
    large, refused = put(queue, b"x" * 50, b"y")
    assert isinstance(refused.future.exception(0), MetadataLogUnavailable)
    assert queue.take() == [large]
    assert len(put(queue, b"a" * 5, b"b" * 5)) == len(queue.take())


def test_a_batch_is_bounded_in_records_and_bytes_and_keeps_the_order() -> None:
    queue = PublishQueue()
    items = put(queue, *[b"x"] * 1500)
    assert [queue.take(), queue.take()] == [items[:1024], items[1024:]]
    items = put(queue, *[bytes(3 << 20)] * 5)
    assert [queue.take() for _ in range(3)] == [items[:2], items[2:4], items[4:]]


def test_a_cancelled_item_is_not_taken_and_a_taken_one_cannot_be_cancelled() -> None:
    queue = PublishQueue()
    first, second = put(queue, b"a", b"b")
    assert first.future.cancel()
    assert queue.take() == [second]
    assert not second.future.cancel()


def test_a_closed_queue_gives_what_it_has_then_ends() -> None:
    queue = PublishQueue()
    items = put(queue, b"a")
    queue.close()
    (late,) = put(queue, b"late")
    with pytest.raises(MetadataLogUnavailable, match="closed"):
        late.future.result(0)
    assert queue.take() == items
    assert queue.take() == []
