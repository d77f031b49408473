"""Which stores a replica binds to its log, and what it tells about the others."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from support.segments import make_data, make_metadata
from support.watched_store import WatchedStore
from tiergate_client.errors import StorageUnavailable
from tiergate_client.ids import LogId
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.metadata.store_binding import ServedLog, StoreBinding
from tiergate_server.segments.call_deadline import remaining_s
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.store_layout import MARKER_KEY
from tiergate_server.segments.store_marker import StoreMarkerV1, bind, read_marker, rebind

EMPTY, USED = ServedLog(LogId(b"l" * 16), is_empty=True), ServedLog(LogId(b"l" * 16), is_empty=False)
OTHER = StoreMarkerV1(LogId(b"o" * 16))


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


def binding_of(store: ObjectStore | None) -> StoreBinding:
    return StoreBinding({"default": lambda: store}, lambda: None)


def test_look_at_a_store_has_a_deadline_so_that_a_plane_can_stop(store: FilesystemStore) -> None:
    seen: list[float | None] = []
    assert binding_of(WatchedStore(store, lambda _: seen.append(remaining_s()))).look(USED)
    assert seen
    assert all(left_s is not None and left_s <= 5 for left_s in seen)


@pytest.mark.parametrize("log", [EMPTY, USED])
def test_store_without_segments_is_bound(store: FilesystemStore, log: ServedLog) -> None:
    binding = binding_of(store)
    assert binding.look(log)
    assert binding.look(log)
    assert read_marker(store) == StoreMarkerV1(log.log_id)
    assert binding.warnings == ()


def test_store_with_segments_is_bound_to_a_log_that_is_used_and_never_to_an_empty_one(store: FilesystemStore) -> None:
    SegmentStorage(store).copy_segment(make_metadata(), make_data(log_bytes=10))
    binding = binding_of(store)
    assert binding.look(EMPTY)
    assert read_marker(store) is None
    (warning,) = binding.warnings
    assert "is empty and store default holds segments" in warning
    assert binding.look(USED)
    assert read_marker(store) == StoreMarkerV1(USED.log_id)
    assert binding.warnings == ()


def test_store_of_another_log_stays_so_and_is_told_once_in_the_log(
    store: FilesystemStore, caplog: pytest.LogCaptureFixture
) -> None:
    bind(store, OTHER)
    binding = binding_of(store)
    with caplog.at_level(logging.WARNING):
        assert binding.look(USED)
        assert binding.look(USED)
    (warning,) = binding.warnings
    assert warning.startswith(f"store default belongs to the metadata log {OTHER.log_id}")
    assert caplog.messages == [warning]
    assert read_marker(store) == OTHER
    rebind(store, StoreMarkerV1(USED.log_id))
    binding.look(USED)
    assert binding.warnings == ()


def test_damaged_marker_is_told_and_left_alone(store: FilesystemStore) -> None:
    store.put_if_absent(MARKER_KEY, b"nonsense")
    binding = binding_of(store)
    assert binding.look(USED)
    assert "is corrupt" in binding.warnings[0]
    assert store.get(MARKER_KEY) == b"nonsense"


def test_store_that_cannot_be_looked_at_is_tried_again_and_the_others_are_bound(
    store: FilesystemStore, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> ObjectStore | None:
        raise StorageUnavailable("out of reach")

    binding = StoreBinding({"away": away, "missing": lambda: None, "there": lambda: store}, lambda: None)
    with caplog.at_level(logging.DEBUG):
        assert not binding.look(USED)
    assert (binding.warnings, caplog.messages) == ((), [])
    assert read_marker(store) == StoreMarkerV1(USED.log_id)
