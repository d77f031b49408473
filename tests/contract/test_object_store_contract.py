"""What every ObjectStore must do with whole objects, run over each adapter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tiergate_client.clock import system_clock
from tiergate_server.segments.object_store import InvalidKey, ObjectNotFound, ObjectStore

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("s3")


def keys_below(store: ObjectStore, prefix: str) -> set[str]:
    return {info.key for info in store.list(prefix)}


def read_range(store: ObjectStore, key: str, offset: int, length: int) -> bytes:
    with store.open_range(key, offset=offset, length=length) as reader:
        return reader.read(length)


def test_put_object_is_read_back(store: ObjectStore) -> None:
    assert store.put_if_absent("a/b/c", b"content")
    assert store.get("a/b/c") == b"content"


def test_empty_object_is_an_object(store: ObjectStore) -> None:
    assert store.put_if_absent("a/empty", b"")
    assert store.get("a/empty") == b""
    assert read_range(store, "a/empty", 0, 10) == b""


def test_put_leaves_the_object_as_it_was_when_the_key_is_taken(store: ObjectStore) -> None:
    store.put_if_absent("a/b", b"first")
    assert not store.put_if_absent("a/b", b"second")
    assert store.get("a/b") == b"first"


def test_upload_in_pieces_is_read_back_whole(store: ObjectStore) -> None:
    pieces: list[bytes | memoryview] = [
        b"one",
        memoryview(b"two"),
        b"",
        *(bytes([number]) * MIB for number in range(18)),
    ]
    with store.upload("a/b") as upload:
        for piece in pieces:
            upload.write(piece)
        assert upload.commit()
    assert store.get("a/b") == b"".join(pieces)


def test_upload_without_a_byte_commits_an_empty_object(store: ObjectStore) -> None:
    assert store.upload("a/b").commit()
    assert store.get("a/b") == b""


def test_upload_is_invisible_before_commit(store: ObjectStore) -> None:
    with store.upload("a/b") as upload:
        upload.write(b"content")
        with pytest.raises(ObjectNotFound):
            store.get("a/b")
        assert keys_below(store, "a") == set()


def test_upload_commits_false_when_the_key_was_taken_meanwhile(store: ObjectStore) -> None:
    with store.upload("a/b") as upload:
        upload.write(b"late")
        assert store.put_if_absent("a/b", b"early")
        assert not upload.commit()
    assert store.get("a/b") == b"early"


def test_context_aborts_an_upload_that_was_not_committed(store: ObjectStore) -> None:
    with store.upload("a/b") as upload:
        upload.write(b"content")
    assert keys_below(store, "a") == set()
    assert store.put_if_absent("a/b", b"other")


def test_abort_has_no_effect_after_commit(store: ObjectStore) -> None:
    upload = store.upload("a/b")
    upload.commit()
    upload.abort()
    assert store.get("a/b") == b""


@pytest.mark.parametrize("kind_of_store", ["directories", "s3_bucket"])
def test_one_of_many_concurrent_writers_of_a_key_wins(store: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        wins = list(threads.map(lambda number: store.put_if_absent("a/b", b"%d" % number), range(32)))
    assert wins.count(True) == 1
    assert store.get("a/b") == b"%d" % wins.index(True)


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, 10, b"0123456789"), (0, 1, b"0"), (9, 1, b"9"), (3, 4, b"3456"), (8, 100, b"89"), (4, 0, b"")],
)
def test_range_gives_the_bytes_asked_for_and_fewer_at_the_end(
    store: ObjectStore, offset: int, length: int, expected: bytes
) -> None:
    store.put_if_absent("a/b", b"0123456789")
    assert read_range(store, "a/b", offset, length) == expected


def test_reader_gives_a_range_piece_by_piece(store: ObjectStore) -> None:
    store.put_if_absent("a/b", b"0123456789")
    with store.open_range("a/b", offset=1, length=7) as reader:
        assert [reader.read(3), reader.read(3), reader.read(3), reader.read(3)] == [b"123", b"456", b"7", b""]


def test_reader_can_be_closed_twice(store: ObjectStore) -> None:
    store.put_if_absent("a/b", b"content")
    reader = store.open_range("a/b", offset=0, length=1)
    reader.close()
    reader.close()


def test_absent_object_is_not_found(store: ObjectStore) -> None:
    store.put_if_absent("a/b/c", b"")
    for key in ("a/x", "x/y", "a/b"):
        with pytest.raises(ObjectNotFound):
            store.get(key)
        with pytest.raises(ObjectNotFound):
            store.open_range(key, offset=0, length=1)


def test_deleted_object_is_gone_and_its_key_free(store: ObjectStore) -> None:
    store.put_if_absent("a/b/c", b"first")
    store.delete("a/b/c")
    with pytest.raises(ObjectNotFound):
        store.get("a/b/c")
    assert store.put_if_absent("a/b/c", b"second")
    assert store.get("a/b/c") == b"second"


def test_reading_into_a_place_fills_it_and_leaves_the_rest_at_the_end(store: ObjectStore) -> None:
    store.put_if_absent("a/b", b"0123456789")
    place = memoryview(bytearray(b"...."))
    with store.open_range("a/b", offset=1, length=7) as reader:
        assert (reader.read_into(place), bytes(place)) == (4, b"1234")
        assert (reader.read_into(place), bytes(place)) == (3, b"5674")
        assert (reader.read_into(place), bytes(place)) == (0, b"5674")
    with pytest.raises(ValueError, match="is closed"):
        reader.read_into(place)


def test_delete_of_an_absent_object_is_fine(store: ObjectStore) -> None:
    store.delete("never/was")
    store.put_if_absent("a/b", b"")
    store.delete("a/b")
    store.delete("a/b")


def test_delete_leaves_the_neighbours(store: ObjectStore) -> None:
    for key in ("a/b/1", "a/b/2", "a/c", "ab/1"):
        store.put_if_absent(key, b"")
    store.delete("a/b/1")
    assert keys_below(store, "a") | keys_below(store, "ab") == {"a/b/2", "a/c", "ab/1"}


def test_list_gives_keys_and_sizes_below_a_prefix_only(store: ObjectStore) -> None:
    for key in ("a/b", "a/c/d", "ab/c", "b"):
        store.put_if_absent(key, key.encode())
    assert [(info.key, info.size_bytes) for info in store.list("a")] == [("a/b", 3), ("a/c/d", 5)]
    assert list(store.list("a/b")) == []
    assert list(store.list("nothing/here")) == []


def test_list_without_a_prefix_gives_everything(store: ObjectStore) -> None:
    for key in ("b", "a/c/d", "a-b", "a/b"):
        store.put_if_absent(key, b"")
    with store.upload("c"):
        assert [info.key for info in store.list("")] == ["a-b", "a/b", "a/c/d", "b"]


def test_list_is_in_the_order_of_the_keys_and_begins_behind_any_of_them(store: ObjectStore) -> None:
    # What sorts around "/", a name that others begin with, and what UTF-16 would sort otherwise than UTF-8.
    names = (
        "a",
        "a!",
        "a-b",
        "a.b",
        "a0",
        "aa",
        "b",
        "\N{LATIN SMALL LETTER E WITH ACUTE}",
        "\uff5e",
        "\N{GRINNING FACE}",
    )
    keys = sorted(f"top/{name}/{below}" for name in names for below in ("x", "x-", "y/z"))
    for key in reversed(keys):
        store.put_if_absent(key, b"")
    assert [info.key for info in store.list("top")] == keys
    for after in (*keys, "", "top/a", "top/a/", "top/a/y", "top/a0/y/zz", "top/c/d", "to", "tp"):
        assert [info.key for info in store.list("top", after=after)] == [key for key in keys if key > after], after
    assert [info.key for info in store.list("top/a", after="top/a/x-")] == ["top/a/y/z"]
    assert [info.key for info in store.list("", after=keys[-2])] == keys[-1:]


def test_list_tells_when_an_object_was_stored(store: ObjectStore) -> None:
    before_ms = system_clock()
    store.put_if_absent("a", b"")
    (info,) = store.list("")
    assert before_ms - 1000 <= info.modified_at_ms <= system_clock() + 1000  # S3 tells whole seconds


def test_object_exists_between_put_and_delete(store: ObjectStore) -> None:
    assert not store.exists("a/b")
    store.put_if_absent("a/b", b"")
    assert store.exists("a/b")
    assert not store.exists("a")
    assert not store.exists("a/b/c")
    store.delete("a/b")
    assert not store.exists("a/b")


def test_delete_many_removes_those_that_are_there_and_no_others(store: ObjectStore) -> None:
    keys = [f"a/{number % 10}/{number}" for number in range(1500)]
    there = [keys[number] for number in (0, 1, 11, 999, 1000, 1499)]
    for key in (*there, "a/1/other", "b"):
        store.put_if_absent(key, b"")
    store.delete_many(iter(keys))
    assert [info.key for info in store.list("")] == ["a/1/other", "b"]
    store.delete_many(())


def test_delete_many_refuses_what_is_no_key(store: ObjectStore) -> None:
    with pytest.raises(InvalidKey):
        store.delete_many(["a", "no//key"])


@pytest.mark.parametrize("key", ["", "/", "a//b", "/a", "a/", ".", "..", "a/../b", "../a", "a/./b"])
def test_key_that_is_no_path_of_names_is_refused(store: ObjectStore, key: str) -> None:
    for use in (store.upload, store.get, store.exists, store.delete):
        with pytest.raises(InvalidKey):
            use(key)
    if key:
        for use_below in (store.list, store.list_partials):
            with pytest.raises(InvalidKey):
                use_below(key)
    with pytest.raises(InvalidKey):
        store.begin_partial(key, size_bytes=1)
    with pytest.raises(InvalidKey):
        store.put_if_absent(key, b"")
    with pytest.raises(InvalidKey):
        store.open_range(key, offset=0, length=1)
