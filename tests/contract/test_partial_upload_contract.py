"""What every ObjectStore must do with partial uploads, run over each adapter."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from crc32c import crc32c

from tiergate_client.clock import system_clock
from tiergate_server.segments.object_store import ObjectNotFound, ObjectStore, PartialGone, PartialUpload

MIB = 1024 * 1024
DATA = random.Random(1).randbytes(11 * MIB + 3)
BLOCKS = [crc32c(DATA[begin : begin + MIB]) for begin in range(0, len(DATA), MIB)]
KEY = "a/b"

Begin = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("s3")


@pytest.fixture
def begin(store: ObjectStore) -> Iterator[Begin]:
    """Begins a partial upload, which is ended with the test."""
    begun = []

    def begin(key: str) -> str:
        handle = store.begin_partial(key, size_bytes=len(DATA))
        assert handle is not None
        begun.append((key, handle))
        return handle

    yield begin
    for key, handle in begun:
        store.end_partial(key, handle)


def opened(store: ObjectStore, handle: str, *, key: str = KEY) -> PartialUpload:
    return store.open_partial(key, handle, size_bytes=len(DATA), block_crc32c=BLOCKS)


def write_blocks(upload: PartialUpload, *, begin: int = 0, end: int = len(DATA)) -> None:
    for block in range(begin, end, MIB):
        upload.write(memoryview(DATA)[block : min(block + MIB, end)])


def write_and_commit(upload: PartialUpload, *, begin: int) -> bool:
    write_blocks(upload, begin=begin)
    return upload.commit()


def is_committed_by(upload: PartialUpload, *, begin: int) -> bool:
    """False when somebody else has committed it, whether the store says so by the key or by the upload."""
    try:
        return write_and_commit(upload, begin=begin)
    except PartialGone:
        return False


def listed_keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(partial.key for partial in store.list_partials(prefix))


def test_partial_upload_is_read_back_whole(store: ObjectStore, begin: Begin) -> None:
    with opened(store, begin(KEY)) as upload:
        assert upload.committed_bytes == 0
        assert write_and_commit(upload, begin=0)
    assert store.get(KEY) == DATA
    assert listed_keys(store) == []


def test_partial_upload_that_finds_its_key_taken_leaves_nothing(store: ObjectStore, begin: Begin) -> None:
    with opened(store, begin(KEY)) as first, opened(store, begin(KEY)) as second:
        assert write_and_commit(first, begin=0)
        assert not write_and_commit(second, begin=0)
    assert store.get(KEY) == DATA
    assert listed_keys(store) == []


def test_small_object_is_not_worth_a_partial_upload(store: ObjectStore) -> None:
    assert store.begin_partial(KEY, size_bytes=1) is None
    assert listed_keys(store) == []


@pytest.mark.parametrize("written", [0, 1, 5 * MIB, 5 * MIB + 1, 10 * MIB, len(DATA)])
def test_partial_upload_is_continued_by_another_process(
    store: ObjectStore, open_store: Callable[[], ObjectStore], begin: Begin, written: int
) -> None:
    handle = begin(KEY)
    with opened(store, handle) as upload:
        write_blocks(upload, end=written)
    other = open_store()
    with opened(other, handle) as upload:
        kept = upload.committed_bytes
        assert written - 5 * MIB < kept <= written  # S3 keeps whole parts
        assert kept % MIB == 0 or kept == len(DATA)
        assert write_and_commit(upload, begin=kept)
    assert other.get(KEY) == DATA


def test_partial_upload_is_invisible_before_commit(store: ObjectStore, begin: Begin) -> None:
    with opened(store, begin(KEY)) as upload:
        write_blocks(upload)
        assert not store.exists(KEY)
        assert list(store.list("")) == list(store.list("a")) == []
        with pytest.raises(ObjectNotFound):
            store.get(KEY)


def test_two_sessions_write_one_upload_and_either_commits_it(store: ObjectStore, begin: Begin) -> None:
    handle = begin(KEY)
    with opened(store, handle) as first, opened(store, handle) as second:
        for block in range(0, 6 * MIB, MIB):
            for upload in (first, second):
                write_blocks(upload, begin=block, end=block + MIB)
        assert write_and_commit(first, begin=6 * MIB)
        assert store.get(KEY) == DATA
        assert not is_committed_by(second, begin=6 * MIB)
    assert store.get(KEY) == DATA
    assert listed_keys(store) == []


@pytest.mark.parametrize("kind_of_store", ["directories", "s3_bucket"])
def test_many_sessions_at_once_make_one_object(
    store: ObjectStore, open_store: Callable[[], ObjectStore], begin: Begin
) -> None:
    handle = begin(KEY)

    def session(of: ObjectStore) -> bool:
        try:
            with opened(of, handle) as upload:
                return is_committed_by(upload, begin=upload.committed_bytes)
        except PartialGone:
            return False

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(session, [store, open_store(), store, open_store()]))
    assert any(outcomes)  # or several: S3 answers a repeated completion of one upload like the first
    assert store.get(KEY) == DATA


def test_commit_is_false_when_the_key_was_taken_meanwhile(store: ObjectStore, begin: Begin) -> None:
    with opened(store, begin(KEY)) as upload:
        write_blocks(upload)
        assert store.put_if_absent(KEY, b"early")
        assert upload.commit() is False
    assert store.get(KEY) == b"early"
    assert listed_keys(store) == []


def test_upload_that_was_ended_meanwhile_is_gone(
    store: ObjectStore, open_store: Callable[[], ObjectStore], begin: Begin
) -> None:
    handle = begin(KEY)
    with opened(store, handle) as upload:
        write_blocks(upload, end=5 * MIB)
    with opened(store, handle) as upload:
        assert upload.committed_bytes == 5 * MIB
        open_store().end_partial(KEY, handle)
        with pytest.raises(PartialGone):
            opened(store, handle)
        with pytest.raises(PartialGone):
            write_and_commit(upload, begin=5 * MIB)
    assert not store.exists(KEY)
    assert listed_keys(store) == []


def test_handle_that_is_none_of_the_key_is_gone(store: ObjectStore, begin: Begin) -> None:
    handle = begin(KEY)
    for key, unknown in ((KEY, "0" * 32), (KEY, "nonsense"), ("a/c", handle)):
        with pytest.raises(PartialGone):
            opened(store, unknown, key=key)
        store.end_partial(key, unknown)
    assert listed_keys(store) == [KEY]


def test_partial_uploads_are_listed_below_a_prefix_until_they_are_ended(store: ObjectStore, begin: Begin) -> None:
    before_ms = system_clock()
    handles = [begin(key) for key in ("d", "a/b", "a/b", "a/b/c", "ab/c")]
    assert listed_keys(store) == ["a/b", "a/b", "a/b/c", "ab/c", "d"]
    assert listed_keys(store, "a") == ["a/b", "a/b", "a/b/c"]
    assert listed_keys(store, "a/b") == ["a/b/c"]
    assert listed_keys(store, "nothing/here") == []
    for partial in store.list_partials(""):
        assert before_ms - 1000 <= partial.begun_at_ms <= system_clock() + 1000
    for _ in range(2):
        store.end_partial("d", handles[0])
    assert listed_keys(store) == ["a/b", "a/b", "a/b/c", "ab/c"]
    for partial in store.list_partials("a"):
        store.end_partial(partial.key, partial.handle)
    assert listed_keys(store) == ["ab/c"]
    with pytest.raises(PartialGone):
        opened(store, handles[1], key="a/b")


def test_upload_can_be_closed_at_any_time(store: ObjectStore, begin: Begin) -> None:
    upload = opened(store, begin(KEY))
    upload.close()
    upload.close()
    with opened(store, begin(KEY)) as upload:
        assert write_and_commit(upload, begin=0)
        upload.close()
    assert store.get(KEY) == DATA
