"""Calls that have to wait for each other do so within their deadlines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.segments import make_metadata
from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.call_deadline import call_deadline, in_time
from tiergate_server.segments.segment_storage import SegmentStorage

METADATA = make_metadata()


@pytest.mark.parametrize("seconds", [None, 20])
def test_free_lock_is_held_and_let_go_again(seconds: float | None) -> None:
    lock = threading.Lock()
    with call_deadline(seconds):
        with in_time(lock):
            assert lock.locked()
        assert not lock.locked()


def test_lock_that_stays_taken_is_given_up_at_the_deadline() -> None:
    lock = threading.Lock()
    with lock, call_deadline(0.01), pytest.raises(StorageUnavailable, match="did not answer in time"), in_time(lock):
        raise AssertionError("two hold it")
    assert not lock.locked()


@pytest.mark.parametrize(
    "call",
    [lambda storage: storage.delete_segment(METADATA), lambda storage: storage.abort_upload(METADATA)],
    ids=["delete", "abort"],
)
def test_delete_does_not_wait_for_a_stuck_one_beyond_its_deadline(
    call: Callable[[SegmentStorage], object], tmp_path: Path
) -> None:
    storage = SegmentStorage(FilesystemStore(tmp_path))
    with storage._delete_lock(METADATA), call_deadline(0.01), pytest.raises(StorageUnavailable):
        call(storage)
    call(storage)
