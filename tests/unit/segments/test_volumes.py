"""Several stores side by side, of which one is out of reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.segments import make_data, make_metadata, read_back
from support.watched_store import WatchedStore
from tiergate_client.errors import SegmentConflict, SegmentNotFound, StorageUnavailable
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.segment_storage import SegmentStorage
from tiergate_server.segments.volumes import SegmentVolumes

DATA = make_data(log_bytes=500)


@dataclass
class Stores:
    """Two volumes; those named in `away` are out of reach."""

    directory: Path
    away: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hot, self.cold = self._volume("hot"), self._volume("cold")
        self.volumes = SegmentVolumes({"hot": self.hot, "cold": self.cold}, store_of_topic=lambda _: "hot")

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        self.away.add(name)
        yield
        self.away.remove(name)

    def _volume(self, name: str) -> SegmentStorage:
        store = FilesystemStore(self.directory / name)
        return SegmentStorage(WatchedStore(store, self._unless_away(name)), name=name)

    def _unless_away(self, name: str) -> Callable[[int], None]:
        def look(_: int) -> None:
            if name in self.away:
                raise StorageUnavailable(f"{name} is away", retry_after_ms=1)

        return look


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


@pytest.fixture
def metadata() -> RemoteLogSegmentMetadata:
    return make_metadata()


@pytest.mark.parametrize(("holder", "away"), [("hot", "cold"), ("cold", "hot")])
def test_segment_without_custom_metadata_is_read_while_a_store_that_lacks_it_is_away(
    stores: Stores, metadata: RemoteLogSegmentMetadata, holder: str, away: str
) -> None:
    {"hot": stores.hot, "cold": stores.cold}[holder].copy_segment(metadata, DATA)
    with stores.without(away):
        assert read_back(stores.volumes.holding(metadata), metadata) == DATA


def test_segment_is_not_called_absent_while_a_store_that_may_hold_it_is_away(
    stores: Stores, metadata: RemoteLogSegmentMetadata
) -> None:
    with stores.without("cold"), pytest.raises(StorageUnavailable, match="cold is away"):
        stores.volumes.holding(metadata)
    with pytest.raises(SegmentNotFound):
        stores.volumes.holding(metadata).get_manifest(metadata)


@pytest.mark.parametrize("away", ["hot", "cold"])
def test_abort_reaches_the_other_store_when_one_is_away(
    stores: Stores, metadata: RemoteLogSegmentMetadata, away: str
) -> None:
    volumes = {"hot": stores.hot, "cold": stores.cold}
    for volume in volumes.values():
        volume.begin_copy(DATA.manifest(metadata))
    with stores.without(away), pytest.raises(StorageUnavailable, match=f"{away} is away"):
        stores.volumes.abort_upload(metadata)
    (there,) = volumes.keys() - {away}
    with pytest.raises(SegmentConflict, match="was deleted"):
        volumes[there].copy_segment(metadata, DATA)
    assert volumes[away].copy_segment(metadata, DATA)


def test_copies_go_on_while_another_store_is_away_and_ask_it_again_later(
    stores: Stores, metadata: RemoteLogSegmentMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 1000.0
    asked: list[str] = []

    def look(_: int) -> None:
        asked.append("cold")
        if "cold" in stores.away:
            raise StorageUnavailable("cold is away", retry_after_ms=1)

    cold = SegmentStorage(WatchedStore(FilesystemStore(stores.directory / "cold"), look), name="cold")
    volumes = SegmentVolumes(
        {"hot": stores.hot, "cold": cold}, store_of_topic=lambda _: "hot", monotonic_s=lambda: now_s
    )
    manifest = DATA.manifest(metadata)
    with stores.without("cold"):
        assert volumes.get_upload(manifest).custom_metadata is None
        assert volumes.get_upload(manifest).custom_metadata is None
    assert asked == ["cold"]
    assert [record.message for record in caplog.records] == ["copies go on without asking the store cold: cold is away"]
    now_s += 31
    volumes.get_upload(manifest)
    assert len(asked) > 1
