"""What the driver of a read does while planes are away, and what it says of those that are not there; without Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from support.planes import PlaneProcess, Planes, free_ports, running_planes
from support.tiering import tier_segments
from support.waiting import wait_until
from tiergate_client import connect
from tiergate_client.errors import InvalidField, TiergateError, TopicNotFound, Unavailable
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark import driver_calls
from tiergate_spark.bounds import Bounds
from tiergate_spark.input_split import InputSplit
from tiergate_spark.options import SourceOptions, parse_options
from tiergate_spark.planning import plan_batch
from tiergate_spark.schema import columns_of, source_schema
from tiergate_spark.stream_driver import StreamDriver

COLUMNS = columns_of(source_schema(include_headers=False))


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with running_planes(tmp_path_factory.mktemp("planes")) as running, connect(running.target) as client:
        sample = write_sample(tmp_path_factory.mktemp("kafka"), segments=2, segment_bytes=16 * 1024)
        tier_segments(client, sample.directory)
        yield running


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_calls, "PATIENCE_S", 0.1)


def options(target: str, **given: str) -> SourceOptions:
    return parse_options({"target": target, "subscribe": "orders", "startingOffsets": "earliest", **given})


def planned(target: str, **given: str) -> list[InputSplit]:
    return plan_batch(options(target, **given), COLUMNS, bounds=Bounds())


@contextmanager
def away_until_missed(plane: PlaneProcess, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Killed, and started again when the driver has told that it does not answer."""

    def restart() -> None:
        wait_until(lambda: bool(caplog.messages))
        plane.start()

    plane.kill()
    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        yield
    finally:
        restarting.join()


def failure(target: str, **given: str) -> TiergateError:
    with pytest.raises(TiergateError) as caught:
        planned(target, **given)
    return caught.value


@pytest.mark.parametrize("plane", ["metadata", "segments"])
def test_batch_is_planned_when_a_plane_that_was_away_is_back(
    planes: Planes, caplog: pytest.LogCaptureFixture, plane: str
) -> None:
    before = planned(planes.target)
    with caplog.at_level(logging.WARNING, "tiergate_spark"), away_until_missed(getattr(planes, plane), caplog):
        assert planned(planes.target) == before
    (told,) = caplog.messages
    assert told.startswith(f"cannot connect to {getattr(planes, plane).address} (")
    assert told.endswith("; it is asked again for up to 30 seconds")


def test_stream_goes_on_when_a_plane_that_was_away_is_back(planes: Planes, caplog: pytest.LogCaptureFixture) -> None:
    with closing(StreamDriver(options(planes.target), COLUMNS)) as driver, caplog.at_level(logging.WARNING):
        start = driver.start()
        with away_until_missed(planes.metadata, caplog):
            stops = driver.stops(start, limit=None)
        caplog.clear()
        with away_until_missed(planes.segments, caplog):
            assert driver.plan(start, stops) == planned(planes.target)


@pytest.mark.usefixtures("impatience")
def test_address_at_which_nobody_listens_is_named_with_its_option(planes: Planes) -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    alone = failure(nowhere)
    assert isinstance(alone, Unavailable)
    assert alone.message == (
        f"cannot reach the metadata plane at {nowhere}; start one, or name another with the option target"
    )
    assert failure(planes.target, segments=nowhere).message == (
        f"cannot reach the segment plane at {nowhere}; start one, or name another with the option segments"
    )


def test_plane_in_the_place_of_the_other_is_told(planes: Planes) -> None:
    metadata, segments = planes.target, planes.segments.address
    swapped = failure(segments)
    assert isinstance(swapped, InvalidField)
    assert swapped.message == (f"target: {segments} is a segment plane; give the address of the metadata plane instead")
    assert failure(metadata, segments=metadata).message == (
        f"segments: {metadata} is a metadata plane; give the address of the segment plane instead"
    )


def test_failure_comes_without_the_calls_behind_it(planes: Planes) -> None:
    for error in (failure(planes.target, subscribe="nowhere"), failure(planes.segments.address)):
        assert isinstance(error, TopicNotFound | InvalidField)
        assert error.__cause__ is None
        assert error.__suppress_context__
