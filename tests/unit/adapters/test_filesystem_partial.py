"""Partial uploads in directories: what is kept, what a stop at any operation leaves, and what cannot harm an object."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from support.forgetful_disk import DiskThatIgnoresFsync, ForgetfulDisk, PowerCut
from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.object_store import InvalidKey, PartialGone, PartialUpload

MIB = 1024 * 1024
DATA = random.Random(1).randbytes(3 * MIB + 5)
BLOCKS = [crc32c(DATA[begin : begin + MIB]) for begin in range(0, len(DATA), MIB)]
KEY = "a/b"
ROOT = Path("/data/store")


def begun(store: FilesystemStore, *, key: str = KEY) -> str:
    handle = store.begin_partial(key, size_bytes=len(DATA))
    assert handle is not None
    return handle


def opened(store: FilesystemStore, handle: str, *, key: str = KEY) -> PartialUpload:
    return store.open_partial(key, handle, size_bytes=len(DATA), block_crc32c=BLOCKS)


def write_rest(upload: PartialUpload, *, begin: int | None = None, end: int = len(DATA)) -> None:
    for offset in range(upload.committed_bytes if begin is None else begin, end, MIB):
        upload.write(DATA[offset : min(offset + MIB, end)])


def names_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.mark.parametrize(
    ("flipped", "kept"), [(0, 0), (MIB - 1, 0), (MIB, MIB), (3 * MIB - 1, 2 * MIB), (3 * MIB + 4, 3 * MIB)]
)
def test_block_with_a_wrong_byte_is_not_committed_and_is_written_again(tmp_path: Path, flipped: int, kept: int) -> None:
    store = FilesystemStore(tmp_path)
    handle = begun(store)
    with opened(store, handle) as upload:
        write_rest(upload)
    file = tmp_path / ".partials" / KEY / handle
    damaged = bytearray(file.read_bytes())
    damaged[flipped] ^= 1
    file.write_bytes(damaged)
    with opened(store, handle) as upload:
        assert upload.committed_bytes == kept
        write_rest(upload)
        assert upload.commit()
    assert store.get(KEY) == DATA


@pytest.mark.parametrize(
    ("written", "kept"),
    [(0, 0), (MIB - 1, 0), (MIB, MIB), (3 * MIB + 4, 3 * MIB), (len(DATA), len(DATA))],
)
def test_whole_blocks_or_everything_is_kept(tmp_path: Path, written: int, kept: int) -> None:
    store = FilesystemStore(tmp_path)
    handle = begun(store)
    with opened(store, handle) as upload:
        write_rest(upload, end=written)
    with opened(store, handle) as upload:
        assert upload.committed_bytes == kept


def test_object_of_one_block_starts_over(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    assert store.begin_partial(KEY, size_bytes=MIB) is None
    assert store.begin_partial(KEY, size_bytes=MIB + 1) is not None


def test_session_that_writes_on_after_another_committed_leaves_the_object_as_it_is(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    handle = begun(store)
    with opened(store, handle) as late, opened(store, handle) as upload:
        write_rest(late, end=MIB)
        write_rest(upload)
        assert upload.commit()
        write_rest(late, begin=MIB, end=2 * MIB)
        assert store.get(KEY) == DATA
        write_rest(late, begin=2 * MIB)
        assert not late.commit()
    assert store.get(KEY) == DATA
    assert names_below(tmp_path) == {".uploads", "a", "a/b"}


def test_upload_is_gone_when_it_was_committed_and_the_object_deleted(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    handle = begun(store)
    with opened(store, handle) as late, opened(store, handle) as upload:
        write_rest(late)
        write_rest(upload)
        upload.commit()
        store.delete(KEY)
        with pytest.raises(PartialGone):
            late.commit()
    assert names_below(tmp_path) == {".uploads"}


def test_ended_upload_leaves_neither_file_nor_directories(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    first, second = begun(store, key="a/b"), begun(store, key="a/b/c")
    store.end_partial("a/b", first)
    assert names_below(tmp_path / ".partials") == {"a", "a/b", "a/b/c", f"a/b/c/{second}"}
    store.end_partial("a/b/c", second)
    assert names_below(tmp_path) == {".uploads"}


def test_ordinary_upload_of_a_killed_process_is_listed_among_all_and_ended(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    for key in ("a/b", "a/" + "long" * 60):
        store.upload(key).write(b"neither committed nor aborted")
    [left] = FilesystemStore(tmp_path).list_partials("")  # of a long key it is not known what it was
    assert left.key == "a/b"
    assert list(store.list_partials("a")) == []  # somebody may be at it: nothing but its age tells
    store.end_partial(left.key, left.handle)
    assert list(store.list_partials("")) == []
    assert len(list((tmp_path / ".uploads").iterdir())) == 1


@pytest.mark.parametrize("handle", ["", ".", "..", "../../../outside", "/etc/passwd", "a\0b", "0" * 31, "F" * 32])
def test_handle_never_reaches_outside_whatever_it_contains(tmp_path: Path, handle: str) -> None:
    (tmp_path / "outside").write_bytes(b"")
    store = FilesystemStore(tmp_path / "root")
    with pytest.raises(PartialGone):
        opened(store, handle)
    store.end_partial(KEY, handle)
    assert names_below(tmp_path) == {"outside", "root", "root/.uploads"}


def test_old_partial_upload_is_no_leftover(tmp_path: Path) -> None:
    handle = begun(FilesystemStore(tmp_path))
    os.utime(tmp_path / ".partials" / KEY / handle, (1, 1))
    store = FilesystemStore(tmp_path)
    assert [(partial.handle, partial.begun_at_ms) for partial in store.list_partials("")] == [(handle, 1000)]


def test_key_below_another_object_is_refused_at_commit(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.put_if_absent("a", b"")
    with opened(store, begun(store)) as upload:
        write_rest(upload)
        with pytest.raises(InvalidKey, match="below another object"):
            upload.commit()


def test_upload_takes_neither_more_nor_fewer_bytes_than_it_has(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    with opened(store, begun(store)) as upload:
        with pytest.raises(ValueError, match="write all of them first"):
            upload.commit()
        write_rest(upload)
        with pytest.raises(ValueError, match="no more than those"):
            upload.write(b"x")
        upload.close()
        with pytest.raises(ValueError, match="is over"):
            upload.commit()


def test_upload_whose_bytes_could_not_be_made_durable_is_dropped() -> None:
    # What failed to reach the disk can read back as if it had: the upload starts over.
    disk = ForgetfulDisk()
    store = FilesystemStore(ROOT, disk=disk)
    handle = begun(store)
    with opened(store, handle) as upload:
        write_rest(upload)
        disk.fail_at(0, errno.EIO)
        with pytest.raises(StorageUnavailable, match="cannot commit 'a/b'"):
            upload.commit()
    assert not store.exists(KEY)
    with pytest.raises(PartialGone):
        opened(store, handle)


def test_every_failing_operation_is_storage_unavailable_and_a_retry_succeeds() -> None:
    counting = ForgetfulDisk()
    uploaded(FilesystemStore(ROOT, disk=counting))
    refusals: list[StorageUnavailable] = []
    for operations in range(counting.operations):
        disk = ForgetfulDisk()
        disk.fail_at(operations)
        try:
            uploaded(FilesystemStore(ROOT, disk=disk))
        except StorageUnavailable as error:
            refusals.append(error)
        store = FilesystemStore(ROOT, disk=disk)
        continue_any(store)
        assert store.get(KEY) == DATA
    assert all(error.retry_after_ms and error.message.startswith("the object store cannot ") for error in refusals)
    assert len(refusals) == counting.operations - 4  # removing the partial file and its three directories may fail


def uploaded(store: FilesystemStore) -> None:
    with opened(store, begun(store)) as upload:
        write_rest(upload)
        assert upload.commit()


def continue_any(store: FilesystemStore) -> int:
    """Does what is left to do, in whatever upload there is, and tells how much had been kept."""
    handles = [partial.handle for partial in store.list_partials("a")]
    if store.exists(KEY) and not handles:
        return len(DATA)
    with opened(store, handles[0] if handles else begun(store)) as upload:
        write_rest(upload)
        upload.commit()
        return upload.committed_bytes


def forgetting(disk: ForgetfulDisk) -> None:
    disk.restart()


def killed_only(disk: ForgetfulDisk) -> None:
    disk.restart_process()


def surviving_by_chance(seed: int) -> Callable[[ForgetfulDisk], None]:
    def restart(disk: ForgetfulDisk) -> None:
        disk.restart(survivors=random.Random(seed))

    restart.__name__ = f"surviving_by_chance_{seed}"
    return restart


def check_every_crash_point(restart: Callable[[ForgetfulDisk], None], kind: type[ForgetfulDisk]) -> list[int]:
    """Gives what had been kept after a stop at each operation."""
    counting = ForgetfulDisk()
    uploaded(FilesystemStore(ROOT, disk=counting, clock=lambda: 0))
    kept = []
    # One more than there are: the last one is acknowledged first.
    for operations in range(counting.operations + 2):
        disk = kind()
        disk.cut_after(operations)
        acknowledged = False
        try:
            uploaded(FilesystemStore(ROOT, disk=disk, clock=lambda: 0))
            acknowledged = True
        except PowerCut:
            pass
        restart(disk)
        store = FilesystemStore(ROOT, disk=disk, clock=lambda: 0)
        assert store.exists(KEY) or not acknowledged, f"after {operations} operations"
        if store.exists(KEY):
            assert store.get(KEY) == DATA, f"after {operations} operations"
        kept.append(continue_any(store))
        disk.restart()
        store = FilesystemStore(ROOT, disk=disk, clock=lambda: 0)
        assert store.get(KEY) == DATA, f"continued after {operations} operations"
        for partial in store.list_partials(""):
            store.end_partial(partial.key, partial.handle)
        assert store.get(KEY) == DATA
    return kept


@pytest.mark.parametrize(
    "restart",
    [forgetting, killed_only, *(surviving_by_chance(seed) for seed in range(20))],
    ids=lambda restart: restart.__name__,
)
def test_object_is_right_after_a_stop_at_every_operation(restart: Callable[[ForgetfulDisk], None]) -> None:
    check_every_crash_point(restart, ForgetfulDisk)


@pytest.mark.parametrize("seed", range(30))
def test_upload_that_is_stopped_again_and_again_is_finished(seed: int) -> None:
    chance = random.Random(seed)
    disk = ForgetfulDisk()
    stops, acknowledged = 0, False
    while not acknowledged:
        disk.cut_after(chance.randint(8, 24) + stops)
        try:
            continue_any(FilesystemStore(ROOT, disk=disk, clock=lambda: 0))
            acknowledged = True
        except PowerCut:
            stops += 1
        disk.restart(survivors=chance)
    assert FilesystemStore(ROOT, disk=disk).get(KEY) == DATA


def test_every_block_that_was_written_is_kept_when_only_the_process_was_killed() -> None:
    kept = check_every_crash_point(killed_only, ForgetfulDisk)
    assert kept == sorted(kept)
    assert set(kept) == {0, MIB, 2 * MIB, 3 * MIB, len(DATA)}


def test_crash_points_are_found_wanting_on_a_disk_that_ignores_fsync() -> None:
    with pytest.raises(AssertionError, match="after"):
        check_every_crash_point(forgetting, DiskThatIgnoresFsync)
