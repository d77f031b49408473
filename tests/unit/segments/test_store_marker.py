"""The marker of a store: read back, bound once, replaced, and never misread."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.watched_store import WatchedStore
from tiergate_client.errors import NotOffered, StoredDataCorrupt
from tiergate_client.ids import LogId
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.framed_json import frame
from tiergate_server.segments.store_layout import MARKER_KEY
from tiergate_server.segments.store_marker import StoreMarkerV1, bind, read_marker, rebind

LOG = LogId(bytes(15) + b"\x03")
OURS, THEIRS = StoreMarkerV1(LOG), StoreMarkerV1(LogId(b"t" * 16))


@pytest.fixture
def store(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path)


@pytest.mark.parametrize("is_rebuilding", [False, True])
def test_marker_is_read_back(store: FilesystemStore, is_rebuilding: bool) -> None:
    assert read_marker(store) is None
    marker = StoreMarkerV1(LOG, is_rebuilding=is_rebuilding)
    assert bind(store, marker)
    assert read_marker(store) == marker


def test_marker_is_stored_as_documented() -> None:
    stored = b'{"crc32c":"28a5df22","version":1,"log_id":"AAAAAAAAAAAAAAAAAAAAAw","rebuilding":false}'
    assert OURS.to_bytes() == stored
    assert StoreMarkerV1.from_bytes(stored) == OURS


def test_bind_leaves_a_store_that_is_bound_alone(store: FilesystemStore) -> None:
    bind(store, THEIRS)
    assert not bind(store, OURS)
    assert read_marker(store) == THEIRS


def test_rebind_replaces_any_marker(store: FilesystemStore) -> None:
    for marker in (OURS, THEIRS, THEIRS, StoreMarkerV1(LOG, is_rebuilding=True)):
        rebind(store, marker)
        assert read_marker(store) == marker


def test_rebind_that_is_cut_off_leaves_the_old_marker_or_none(store: FilesystemStore) -> None:
    class CutOff(Exception):
        pass

    for last in range(10):
        rebind(store, THEIRS)

        def stop(number: int, last: int = last) -> None:
            if number == last:
                raise CutOff

        try:
            rebind(WatchedStore(store, stop), OURS)
        except CutOff:
            assert read_marker(store) in (THEIRS, None)
        else:
            assert last > 2
            break
    assert read_marker(store) == OURS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        OURS.to_bytes()[:-1],
        OURS.to_bytes().replace(b"Aw", b"Ag"),
        frame({"version": 1}),
        frame({"version": 1, "log_id": "no id", "rebuilding": False}),
    ],
)
def test_damaged_marker_is_told(store: FilesystemStore, data: bytes) -> None:
    store.put_if_absent(MARKER_KEY, data)
    with pytest.raises(StoredDataCorrupt, match=r"tiergate\.json is corrupt"):
        read_marker(store)


def test_marker_of_a_newer_release_is_refused_by_name(store: FilesystemStore) -> None:
    store.put_if_absent(MARKER_KEY, frame({"version": 2, "log": "something new"}))
    with pytest.raises(NotOffered, match="version 2, of a newer release"):
        read_marker(store)
