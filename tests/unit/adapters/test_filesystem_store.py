from __future__ import annotations

import errno
import os
import threading
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.forgetful_disk import ForgetfulDisk, PowerCut
from tiergate_client.errors import StorageUnavailable
from tiergate_server.adapters.disk import OsDisk
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.object_store import InvalidKey, ObjectNotFound

DAY_MS = 24 * 60 * 60 * 1000
ROOT = Path("/data/store")


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.fixture(scope="module")
def fenced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FilesystemStore]:
    fence = tmp_path_factory.mktemp("fence")
    return fence, FilesystemStore(fence / "a" / "store")


names = st.text(max_size=12) | st.sampled_from([".", "..", "", ".uploads", "a", "\0", "\\", "~", "C:", "é" * 128])
keys = st.text(max_size=40) | st.lists(names, max_size=6).map("/".join) | st.just("a/" * 600 + "a")


@settings(deadline=None)  # the disk's time is not ours
@given(key=keys)
@example("../outside")
@example("/etc/outside")
@example("a/../../../outside")
@example(".uploads/x")
@example("\ud800")
def test_key_never_reaches_outside_the_root_whatever_it_contains(
    fenced: tuple[Path, FilesystemStore], key: str
) -> None:
    fence, store = fenced
    before = tree(fence / "a" / "store" / ".uploads")
    try:
        assert store.put_if_absent(key, b"content")
    except InvalidKey:
        for use in (store.get, store.exists, store.delete, store.upload, partial(store.begin_partial, size_bytes=1)):
            with pytest.raises(InvalidKey):
                use(key)
        for use_below in (store.list, store.list_partials):
            with nullcontext() if key == "" else pytest.raises(InvalidKey):
                use_below(key)
    else:
        assert (fence / "a" / "store" / key).read_bytes() == store.get(key) == b"content"
        store.delete(key)
    assert tree(fence) == {"a", "a/store", "a/store/.uploads"}
    assert tree(fence / "a" / "store" / ".uploads") == before == set()


def test_name_of_255_bytes_is_a_key_and_a_longer_one_is_not(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    assert store.put_if_absent("é" * 127 + "e", b"")
    with pytest.raises(InvalidKey, match="255 bytes"):
        store.put_if_absent("é" * 128, b"")


def test_key_below_or_above_another_object_is_refused(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.put_if_absent("a/b", b"")
    with pytest.raises(InvalidKey, match="below another object"):
        store.put_if_absent("a/b/c", b"")
    with pytest.raises(InvalidKey, match="other objects lie below"):
        store.put_if_absent("a", b"")
    store.delete("a")
    store.delete("a/b/c")
    assert store.get("a/b") == b""


def test_delete_removes_directories_that_became_empty(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.put_if_absent("a/b/c/1", b"")
    store.put_if_absent("a/2", b"")
    store.delete("a/b/c/1")
    assert tree(tmp_path) == {"a", "a/2", ".uploads"}
    store.delete("a/2")
    assert tree(tmp_path) == {".uploads"}


def test_publish_makes_a_directory_again_that_was_pruned_before_the_link(tmp_path: Path) -> None:
    class PruningDisk(OsDisk):
        prunes = 3

        def link(self, source: Path, target: Path) -> None:
            if self.prunes and target.parent.exists():
                self.prunes -= 1
                target.parent.rmdir()
                target.parent.parent.rmdir()
            super().link(source, target)

    disk = PruningDisk()
    assert FilesystemStore(tmp_path, disk=disk).put_if_absent("a/b/c", b"content")
    assert disk.prunes == 0
    assert (tmp_path / "a/b/c").read_bytes() == b"content"


def test_puts_survive_concurrent_deletes_in_the_same_directory(tmp_path: Path) -> None:
    stores = [FilesystemStore(tmp_path), FilesystemStore(tmp_path)]
    failures: list[BaseException] = []

    def put_and_delete(number: int) -> None:
        store = stores[number % 2]
        try:
            for _ in range(60):
                assert store.put_if_absent(f"a/b/{number}", b"content")
                assert store.get(f"a/b/{number}") == b"content"
                store.delete(f"a/b/{number}")
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=put_and_delete, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert tree(tmp_path) == {".uploads"}


def test_leftover_uploads_are_removed_when_older_than_a_day(tmp_path: Path) -> None:
    FilesystemStore(tmp_path)
    for name, age_ms in (("old", DAY_MS + 1000), ("young", DAY_MS - 1000)):
        path = tmp_path / ".uploads" / name
        path.write_bytes(b"half")
        written_at_s = (10 * DAY_MS - age_ms) / 1000
        os.utime(path, (written_at_s, written_at_s))
    store = FilesystemStore(tmp_path, clock=lambda: 10 * DAY_MS)
    assert tree(tmp_path) == {".uploads", ".uploads/young"}
    assert store.put_if_absent("a", b"")


def test_upload_leaves_no_temporary_file_behind(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.put_if_absent("a", b"")
    store.put_if_absent("a", b"")
    store.upload("b").abort()
    with pytest.raises(InvalidKey), store.upload("a/b") as upload:
        upload.commit()
    assert tree(tmp_path) == {".uploads", "a"}


def test_upload_and_reader_cannot_be_used_when_they_are_over(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    upload = store.upload("a")
    upload.commit()
    with pytest.raises(ValueError, match="is over"):
        upload.write(b"")
    with pytest.raises(ValueError, match="is over"):
        upload.commit()
    reader = store.open_range("a", offset=0, length=1)
    reader.close()
    with pytest.raises(ValueError, match="is closed"):
        reader.read(1)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE])
def test_every_failing_operation_is_storage_unavailable_and_can_be_retried(code: int) -> None:
    counting = ForgetfulDisk()
    FilesystemStore(Path("/store"), disk=counting).put_if_absent("a/b", b"content")
    refusals: list[StorageUnavailable] = []
    for operations in range(counting.operations):
        disk = ForgetfulDisk()
        disk.fail_at(operations, code)
        try:
            FilesystemStore(Path("/store"), disk=disk).put_if_absent("a/b", b"content")
        except StorageUnavailable as error:
            refusals.append(error)
        store = FilesystemStore(Path("/store"), disk=disk)
        store.put_if_absent("a/b", b"content")
        assert store.get("a/b") == b"content"
    assert all(error.retry_after_ms and error.message.startswith("the object store cannot ") for error in refusals)
    assert len(refusals) == counting.operations - 1  # removing the temporary file may fail


def test_unreadable_object_is_storage_unavailable_not_absent(tmp_path: Path) -> None:
    class UnreadableDisk(OsDisk):
        def open(self, path: Path) -> int:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    store = FilesystemStore(tmp_path, disk=UnreadableDisk())
    store.upload("a").abort()
    with pytest.raises(StorageUnavailable, match="cannot read 'a': Permission denied"):
        store.get("a")


def test_root_that_is_a_file_is_storage_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageUnavailable, match="cannot use"):
        FilesystemStore(tmp_path / "file")


def opened(disk: ForgetfulDisk) -> FilesystemStore:
    return FilesystemStore(ROOT, disk=disk, clock=lambda: 0)


@pytest.mark.parametrize("only_process", [True, False])
def test_acknowledged_put_is_durable_after_a_stop_at_any_operation_before_it(only_process: bool) -> None:
    for operations in range(30):
        disk = ForgetfulDisk()
        disk.cut_after(operations)
        with suppress(PowerCut):
            opened(disk).put_if_absent("a/b", b"content")
        if only_process:
            disk.restart_process()
        else:
            disk.restart()
        opened(disk).put_if_absent("a/b", b"content")
        disk.restart()
        assert opened(disk).get("a/b") == b"content", f"after {operations} operations"


def test_acknowledged_delete_is_durable_after_a_stop_at_any_operation_before_it() -> None:
    for operations in range(12):
        disk = ForgetfulDisk()
        opened(disk).put_if_absent("a/b", b"content")
        disk.cut_after(operations)
        with suppress(PowerCut):
            opened(disk).delete("a/b")
        disk.restart_process()
        opened(disk).delete("a/b")
        disk.restart()
        with pytest.raises(ObjectNotFound):
            opened(disk).get("a/b")


def test_delete_is_durable_when_its_directory_was_pruned_and_made_again_meanwhile() -> None:
    class MeddlingDisk(ForgetfulDisk):
        def unlink(self, path: Path) -> None:
            super().unlink(path)
            if path == ROOT / "a/b":
                self.rmdir(path.parent)
                self.mkdir(path.parent)

    disk = MeddlingDisk()
    opened(disk).put_if_absent("a/b", b"content")
    opened(disk).delete("a/b")
    disk.restart()
    assert not opened(disk).exists("a/b")


MANY = ["a/1", "a/2", "b/c/3", "b/4", "5"]


def store_of_many(disk: ForgetfulDisk) -> FilesystemStore:
    store = opened(disk)
    for key in MANY:
        store.put_if_absent(key, b"content")
    return store


def test_delete_many_syncs_each_directory_once() -> None:
    class CountingDisk(ForgetfulDisk):
        def __init__(self) -> None:
            super().__init__()
            self.synced: list[str] = []

        def fsync_directory(self, path: Path) -> None:
            super().fsync_directory(path)
            self.synced.append(str(path))

    disk = CountingDisk()
    store = store_of_many(disk)
    disk.synced.clear()
    store.delete_many(MANY)
    assert sorted(disk.synced) == [f"{ROOT}{below}" for below in ("", "/a", "/b", "/b/c")]
    disk.restart()
    assert list(opened(disk).list("")) == []


def test_delete_many_goes_on_after_any_failure_then_raises_it() -> None:
    for operations in range(len(MANY) + 4):
        disk = ForgetfulDisk()
        store = store_of_many(disk)
        disk.fail_at(operations, errno.EIO)
        with pytest.raises(StorageUnavailable):
            store.delete_many(MANY)
        assert len(list(store.list(""))) == (1 if operations < len(MANY) else 0)
        store.delete_many(MANY)
        disk.restart()
        assert list(opened(disk).list("")) == [], f"failure at {operations}"


def test_delete_many_goes_on_behind_what_is_no_key() -> None:
    store = store_of_many(ForgetfulDisk())
    with pytest.raises(InvalidKey, match="no//key"):
        store.delete_many([*MANY[:2], "no//key", *MANY[2:]])
    assert list(store.list("")) == []


def test_new_root_that_cannot_be_made_durable_is_storage_unavailable() -> None:
    disk = ForgetfulDisk()
    disk.fail_at(3, errno.EIO)
    with pytest.raises(StorageUnavailable, match="cannot use /store"):
        FilesystemStore(Path("/store"), disk=disk)
