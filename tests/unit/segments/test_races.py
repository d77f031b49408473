"""Copy, read and delete of one segment, with another call squeezed in before every single operation on the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.forgetful_disk import ForgetfulDisk
from support.segments import make_data, make_metadata, read_back
from support.watched_store import WatchedStore
from tiergate_client.errors import SegmentConflict, SegmentNotFound, StorageUnavailable, StoredDataCorrupt
from tiergate_client.segment_files import SegmentFile
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.segment_storage import SegmentStorage

METADATA = make_metadata()
DATA = make_data(log_bytes=500)
OTHER = make_data(log_bytes=500, seed=1)
KEYS = SegmentKeys.of(METADATA)


def copy(storage: SegmentStorage) -> str:
    try:
        storage.copy_segment(METADATA, DATA)
    except SegmentConflict:
        return "conflict"
    return "copied"


def copy_other(storage: SegmentStorage) -> str:
    try:
        storage.copy_segment(METADATA, OTHER)
    except SegmentConflict:
        return "conflict"
    return "copied"


def delete(storage: SegmentStorage) -> str:
    storage.delete_segment(METADATA)
    return "deleted"


def state_of(storage: SegmentStorage) -> str:
    try:
        back = read_back(storage, METADATA)
    except SegmentNotFound:
        return "absent"
    return "whole" if back in (DATA, OTHER) else "other bytes"


Call = Callable[[SegmentStorage], str]
Interruption = tuple[int, str, str, str, str]


def interruptions(outer: Call, inner: Call, *, before: Call | None = None) -> Iterator[Interruption]:
    """(operation, answer of outer, answer of inner, state after inner, state after both), for every operation."""
    number = 0
    while True:
        store = FilesystemStore(Path("/store"), disk=ForgetfulDisk())
        replica = SegmentStorage(store)
        if before is not None:
            before(replica)
        seen: list[str] = []

        def interrupt(
            operation: int, at: int = number, replica: SegmentStorage = replica, seen: list[str] = seen
        ) -> None:
            if operation == at:
                seen.extend([inner(replica), state_of(replica)])

        answer = outer(SegmentStorage(WatchedStore(store, interrupt)))
        if not seen:
            return
        yield number, answer, seen[0], seen[1], state_of(replica)
        number += 1


def test_copy_never_outlives_a_delete_that_came_in_between() -> None:
    outcomes = list(interruptions(copy, delete))
    assert len(outcomes) > 10
    for operation, copied, _, after_delete, at_last in outcomes:
        assert after_delete == "absent"
        # The delete came before the descriptor was put: then the copy as a whole comes after it.
        expected = ("copied", "whole") if operation <= 3 else ("conflict", "absent")
        manifest_is_there = operation == len(outcomes) - 1
        assert (copied, at_last) == (("copied", "absent") if manifest_is_there else expected), f"at {operation}"


@pytest.mark.parametrize("before", [None, copy, copy_other], ids=["nothing", "same content", "other content"])
def test_delete_removes_a_copy_that_came_in_between(before: Call | None) -> None:
    outcomes = list(interruptions(delete, copy, before=before))
    assert len(outcomes) >= 2  # also with nothing there: the manifest is looked at after the listing
    for operation, _, copied, after_copy, at_last in outcomes:
        assert after_copy == "whole" if copied == "copied" else copied == "conflict", f"at {operation}"
        assert at_last == "absent", f"at {operation}"


def test_two_deletes_at_once_end_with_a_tombstone() -> None:
    for operation, _, answers, after_inner, at_last in interruptions(
        delete, lambda replica: f"{delete(replica)} {copy(replica)}", before=copy
    ):
        assert (answers, after_inner, at_last) == ("deleted conflict", "absent", "absent"), f"at {operation}"


@pytest.mark.parametrize("inner", [copy, copy_other])
def test_two_copies_at_once_agree_on_one_content(inner: Call) -> None:
    for operation, outer_answer, inner_answer, after_inner, at_last in interruptions(copy, inner):
        assert "copied" in (outer_answer, inner_answer), f"at {operation}"
        if inner is copy:
            assert outer_answer == inner_answer == "copied"
        else:
            assert {outer_answer, inner_answer} == {"copied", "conflict"}
        assert at_last == "whole"
        assert after_inner == ("whole" if inner_answer == "copied" else after_inner)


def test_reader_overtaken_by_a_delete_finds_no_segment_instead_of_corruption() -> None:
    def read(storage: SegmentStorage) -> str:
        return state_of(storage)

    answers = [answer for _, answer, _, _, _ in interruptions(read, delete, before=copy)]
    assert set(answers) <= {"absent", "whole"}
    assert "absent" in answers


@pytest.mark.parametrize("file", list(DATA.sources))
def test_missing_data_object_under_a_manifest_is_corruption(file: SegmentFile) -> None:
    store = FilesystemStore(Path("/store"), disk=ForgetfulDisk())
    storage = SegmentStorage(store)
    storage.copy_segment(METADATA, DATA)
    store.delete(KEYS.file(DATA.manifest(METADATA).upload_digest, file))
    with pytest.raises(StoredDataCorrupt, match=f"{file.value} of segment .* is missing") as caught:
        read_back(storage, METADATA)
    assert caught.value.details == {"segment": str(METADATA.segment_id), "file": file.value, "position": "0"}


def test_segment_with_a_corrupt_manifest_can_be_deleted_but_not_copied_over() -> None:
    store = FilesystemStore(Path("/store"), disk=ForgetfulDisk())
    storage = SegmentStorage(store)
    store.put_if_absent(KEYS.manifest, b"garbage")
    for use in (lambda: storage.get_manifest(METADATA), lambda: storage.copy_segment(METADATA, DATA)):
        with pytest.raises(StoredDataCorrupt):
            use()
    storage.delete_segment(METADATA)
    assert state_of(storage) == "absent"
    assert copy(storage) == "conflict"


def test_delete_gives_up_as_unavailable_when_others_put_manifests_all_the_time() -> None:
    store = FilesystemStore(Path("/store"), disk=ForgetfulDisk())
    SegmentStorage(store).copy_segment(METADATA, DATA)
    manifest = store.get(KEYS.manifest)

    def put_again(operation: int) -> None:
        store.put_if_absent(KEYS.manifest, manifest)

    stubborn = WatchedStore(store, put_again)
    with pytest.raises(StorageUnavailable, match="try again") as caught:
        SegmentStorage(stubborn).delete_segment(METADATA)
    assert caught.value.retry_after_ms
