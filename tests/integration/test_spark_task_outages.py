"""What tasks of pipelines do when a plane is killed and comes back; without Spark, which only runs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.planes import PlaneProcess, Planes, running_planes
from support.waiting import wait_until
from tiergate_client import Tiergate, connect
from tiergate_client.conversions import metadata_to_proto
from tiergate_client.local_log import PartitionDirectory
from tiergate_client.values import SegmentState
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.options import Service
from tiergate_spark.pipelines.segment_offload import SegmentTask, offload_segment
from tiergate_spark.pipelines.verify_rows import segment_row


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with running_planes(tmp_path_factory.mktemp("planes")) as running:
        yield running


@pytest.fixture
def tiergate(planes: Planes) -> Iterator[Tiergate]:
    with connect(planes.target) as client:
        yield client


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tiergate_spark"]


@contextmanager
def away_until_missed(plane: PlaneProcess, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Killed, and started again when a task has told that it does not answer."""

    def restart() -> None:
        wait_until(lambda: bool(told(caplog)))
        plane.start()

    plane.kill()
    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        with caplog.at_level(logging.WARNING, "tiergate_spark"):
            yield
    finally:
        restarting.join()


def test_tasks_go_on_when_the_segment_plane_is_back(
    planes: Planes, tiergate: Tiergate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(planes.target, planes.segments.address, "service")
    directory = PartitionDirectory.open(write_sample(tmp_path, segments=1, segment_bytes=16 * 1024).directory)
    copied = offload_segment(SegmentTask(service, directory, (), broker_id=1))
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    encoded = metadata_to_proto(stored).SerializeToString()
    before = segment_row(encoded, service)
    with away_until_missed(planes.segments, caplog):
        assert segment_row(encoded, service) == before
    caplog.clear()
    with away_until_missed(planes.segments, caplog):
        again = offload_segment(SegmentTask(service, directory, (stored,), broker_id=1))
    assert (again.result, again.segment_id) == ("skipped", copied.segment_id)
    assert len(told(caplog)) == 1
    assert [one.state for one in tiergate.metadata.list_segments(directory.partition)] == [SegmentState.COPY_FINISHED]
