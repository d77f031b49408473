"""Copy, delete, abort and gc on a bucket, stopped before every single operation: whole or absent, and nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from support.local_metadata import LocalMetadata
from support.s3_server import Bucket
from support.segments import breaking, make_data, make_metadata, read_back
from support.watched_store import WatchedStore
from tiergate_client.errors import SegmentNotFound
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.adapters.memory_log import MemoryEventLog
from tiergate_server.adapters.s3_settings import SMALLEST_PART_BYTES
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.garbage_collection import GarbageCollection
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.segment_storage import SegmentStorage

# One part and a bit.
DATA = make_data(log_bytes=SMALLEST_PART_BYTES + BLOCK_BYTES, index_bytes=8, with_producer_snapshot=False)
SMALL = make_data(log_bytes=100, index_bytes=8, with_producer_snapshot=False)
LATER_MS = 2**50


class Stopped(BaseException):
    """The process ends here. Not an Exception: no code gets to handle it."""


@dataclass(frozen=True)
class Service:
    """A bucket, and metadata that knows nothing of what is in it."""

    store: ObjectStore
    metadata: LocalMetadata
    segment: RemoteLogSegmentMetadata

    @property
    def storage(self) -> SegmentStorage:
        return SegmentStorage(self.store)

    def state(self) -> str:
        try:
            return "whole" if read_back(self.storage, self.segment) in (DATA, SMALL) else "other bytes"
        except SegmentNotFound:
            return "absent"


Act = Callable[[Service], object]


def nothing(service: Service) -> None:
    pass


def copy(service: Service, data: LogSegmentData = DATA) -> None:
    service.storage.copy_segment(service.segment, data)


def copy_small(service: Service) -> None:
    copy(service, SMALL)


def half_a_copy(service: Service) -> None:
    with pytest.raises(OSError, match="the disk broke here"):
        copy(service, breaking(DATA, SMALLEST_PART_BYTES, wait=lambda: None))


def delete(service: Service) -> None:
    service.storage.delete_segment(service.segment)


def abort(service: Service) -> None:
    assert service.storage.abort_upload(service.segment) is False


def collect(service: Service) -> None:
    GarbageCollection(service.store, service.metadata, before_ms=LATER_MS, deletes=True).run()


@dataclass(frozen=True)
class Scenario:
    before: Act
    act: Act
    at_last: str
    is_absent_throughout: bool = False


SCENARIOS = {
    "copy": Scenario(nothing, copy, "whole"),
    "small_copy": Scenario(nothing, copy_small, "whole"),
    "continued_copy": Scenario(half_a_copy, copy, "whole"),
    "delete": Scenario(copy_small, delete, "absent"),
    "delete_of_half_a_copy": Scenario(half_a_copy, delete, "absent", is_absent_throughout=True),
    "abort_of_half_a_copy": Scenario(half_a_copy, abort, "absent", is_absent_throughout=True),
    "gc": Scenario(copy_small, collect, "absent"),
    "gc_of_half_a_copy": Scenario(half_a_copy, collect, "absent", is_absent_throughout=True),
}


@pytest.fixture(scope="module")
def no_metadata() -> Iterator[LocalMetadata]:
    log = MemoryEventLog()
    with closing(log), closing(LocalMetadata(log)) as metadata:
        yield metadata


def is_stopped(scenario: Scenario, service: Service, number: int) -> bool:
    def stop(operation: int) -> None:
        if operation >= number:
            raise Stopped

    try:
        scenario.act(Service(WatchedStore(service.store, stop), service.metadata, service.segment))
    except Stopped:
        return True
    return False


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_segment_is_whole_or_absent_after_a_stop_at_every_operation_on_a_bucket(
    bucket: Bucket, no_metadata: LocalMetadata, scenario: Scenario
) -> None:
    settings = bucket.settings(part_bytes=SMALLEST_PART_BYTES, multipart_threshold_bytes=SMALLEST_PART_BYTES)
    number, was_stopped = 0, True
    with closing(S3Store(settings)) as store:
        while was_stopped:
            service = Service(store, no_metadata, make_metadata())
            scenario.before(service)
            was_stopped = is_stopped(scenario, service, number)
            state = service.state()
            if not was_stopped:
                assert state == scenario.at_last
            assert state == "absent" if scenario.is_absent_throughout else state in {"absent", "whole"}
            scenario.act(service)
            assert service.state() == scenario.at_last, f"retry after {number} operations"
            collect(service)
            assert bucket.unfinished_uploads() == bucket.stored_keys() == [], f"after {number} operations"
            number += 1
    assert number >= 4
