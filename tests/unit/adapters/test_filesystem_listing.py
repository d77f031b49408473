from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from support.forgetful_disk import ForgetfulDisk
from tiergate_server.adapters.disk import DirectoryEntry
from tiergate_server.adapters.filesystem_store import FilesystemStore

# What sorts around "/", and what UTF-16 would sort otherwise than UTF-8. Few, so that keys share directories.
names = st.sampled_from(["a", "a!", "a0", "\uff5e", "\U0001f600"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


def without_those_above_others(keys: set[str]) -> list[str]:
    return [key for key in keys if not any(other.startswith(f"{key}/") for other in keys)]


keys = st.sets(paths, min_size=4, max_size=20).map(without_those_above_others)


class ReadCountingDisk(ForgetfulDisk):
    def __init__(self) -> None:
        super().__init__()
        self.read_directories: list[str] = []

    def entries(self, path: Path) -> list[DirectoryEntry]:
        self.read_directories.append(str(path))
        return super().entries(path)


@given(keys=keys, data=st.data())
def test_keys_are_listed_in_the_order_of_their_bytes_behind_any_text(keys: list[str], data: st.DataObject) -> None:
    after = data.draw(st.sampled_from(["", *keys]) | paths, label="after")
    prefix = data.draw(st.sampled_from(["", *(key.split("/")[0] for key in keys)]), label="prefix")
    store = FilesystemStore(Path("/store"), disk=ForgetfulDisk())
    for key in keys:
        assert store.put_if_absent(key, key.encode())
    expected = sorted(
        (key for key in keys if key > after and (not prefix or key.startswith(f"{prefix}/"))),
        key=lambda key: key.encode(),
    )
    found = list(store.list(prefix, after=after))
    assert [info.key for info in found] == expected
    assert [info.size_bytes for info in found] == [len(key.encode()) for key in expected]


def test_directories_before_the_beginning_are_not_read() -> None:
    disk = ReadCountingDisk()
    store = FilesystemStore(Path("/store"), disk=disk)
    for key in ("a/1/x", "a/2/x", "a/2/y", "a/3/x", "b/1/x"):
        store.put_if_absent(key, b"")
    disk.read_directories.clear()
    listing = store.list("a", after="a/2/x")
    assert next(listing).key == "a/2/y"
    assert disk.read_directories == ["/store/a", "/store/a/2"]
    assert [info.key for info in listing] == ["a/3/x"]


def test_names_that_begin_with_a_dot_are_not_listed(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    store.put_if_absent("a/b", b"")
    assert store.begin_partial("a/c", size_bytes=2**30)
    (tmp_path / "a" / ".nfs0001").write_bytes(b"")
    with store.upload("a/d"):
        assert [info.key for info in store.list("")] == ["a/b"]
