"""The stores that the contract suites of ObjectStore run over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.forgetful_disk import ForgetfulDisk
from support.s3_server import Bucket
from tiergate_client.clock import system_clock
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.object_store import ObjectStore

StoreOpener = Callable[[], ObjectStore]


@pytest.fixture(params=["directories", "directories_in_memory", "s3_bucket", "s3_prefix"])
def kind_of_store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_store(request: pytest.FixtureRequest, kind_of_store: str) -> Iterator[StoreOpener]:
    """Opens the same empty place as often as a test likes, each time as another process would."""
    opener: StoreOpener = request.getfixturevalue(kind_of_store)
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(opener()))


@pytest.fixture
def store(open_store: StoreOpener) -> ObjectStore:
    return open_store()


@pytest.fixture
def directories(tmp_path: Path) -> StoreOpener:
    return lambda: FilesystemStore(tmp_path / "made" / "by the store")


@pytest.fixture
def directories_in_memory() -> StoreOpener:
    disk = ForgetfulDisk(clock=system_clock)
    return lambda: FilesystemStore(Path("/store"), disk=disk)


@pytest.fixture
def s3_bucket(bucket: Bucket) -> StoreOpener:
    return lambda: _s3_store(bucket, prefix="")


@pytest.fixture
def s3_prefix(bucket: Bucket) -> Iterator[StoreOpener]:
    yield lambda: _s3_store(bucket, prefix="a/b")
    assert bucket.unfinished_uploads() == []
    assert all(key.startswith("a/b/") for key in bucket.stored_keys())


def _s3_store(bucket: Bucket, *, prefix: str) -> S3Store:
    smallest = SMALLEST_PART_BYTES
    return S3Store(bucket.settings(prefix=prefix, part_bytes=smallest, multipart_threshold_bytes=smallest))
