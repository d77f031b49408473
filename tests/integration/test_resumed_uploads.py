"""A large upload whose server is killed again and again goes on, on another replica, behind what was kept."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from support.counting_proxy import CountingProxy, counting_proxy
from support.planes import PlaneProcess
from support.s3_server import Bucket
from support.segments import make_data, make_metadata
from tiergate_client import connect
from tiergate_client.segment_data import LogSegmentData, SegmentChunk
from tiergate_client.segment_files import SegmentFile

MIB = 1024 * 1024
LOG_BYTES = 256 * MIB
KILLS = 10


@dataclass(slots=True)
class Replica:
    plane: PlaneProcess
    proxy: CountingProxy
    restart: threading.Thread | None = None

    def kill(self) -> None:
        """And starts it again, in the background."""
        self.plane.kill()
        self.restart = threading.Thread(target=self.plane.start)
        self.restart.start()

    def wait_until_back(self) -> None:
        if self.restart is not None:
            self.restart.join()
            self.restart = None


@dataclass(slots=True)
class Killings:
    """Kills the replica that is sent to, whenever the log has come to one of these places for the first time."""

    replicas: tuple[Replica, ...]
    places: list[int]
    begun_uploads: int = 0

    def came_to(self, offset: int) -> None:
        if self.places and offset >= self.places[0]:
            del self.places[0]
            for replica in self.replicas:
                replica.wait_until_back()
            max(self.replicas, key=lambda replica: replica.proxy.last_sent_s).kill()


@dataclass(frozen=True, slots=True)
class DeadlyData(LogSegmentData):
    killings: Killings | None = None

    def chunks(self, *, begin_at: Mapping[SegmentFile, int] = MappingProxyType({})) -> Iterator[SegmentChunk]:
        assert self.killings is not None
        self.killings.begun_uploads += 1
        for chunk in LogSegmentData.chunks(self, begin_at=begin_at):
            yield chunk
            if chunk.file is SegmentFile.LOG:
                self.killings.came_to(chunk.offset)


@pytest.fixture(params=["directories", "s3"])
def store_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "directories":
        return {"segments.store": (tmp_path / "store").as_uri()}
    bucket: Bucket = request.getfixturevalue("bucket")
    return {key.replace("__", "."): value for key, value in bucket.plane_settings().items()}


@pytest.fixture
def replicas(store_settings: dict[str, str], tmp_path: Path) -> Iterator[tuple[Replica, ...]]:
    with ExitStack() as running:
        started = []
        for number in range(2):
            settings = {"segments.metrics": "", "segments.listen": "127.0.0.1:0", **store_settings}
            plane = PlaneProcess("segments", data_directory=tmp_path / f"replica-{number}", settings=settings)
            plane.start()
            running.callback(plane.kill)
            started.append(Replica(plane, running.enter_context(counting_proxy(plane.address))))
        yield tuple(started)
        for replica in started:
            replica.wait_until_back()


@pytest.mark.timeout(300)
def test_upload_is_finished_by_two_replicas_that_are_killed_ten_times(replicas: tuple[Replica, ...]) -> None:
    chance = random.Random(5)
    data = replace(make_data(log_bytes=0), log=b"".join(chance.randbytes(MIB) for _ in range(LOG_BYTES // MIB)))
    killings = Killings(replicas, sorted(chance.randrange(LOG_BYTES) for _ in range(KILLS)))
    files = {field.name: getattr(data, field.name) for field in fields(LogSegmentData)}
    deadly = DeadlyData(**files, killings=killings)
    target = "ipv4:" + ",".join(replica.proxy.address for replica in replicas)
    metadata = make_metadata()
    with connect(target, segments=target, timeout_s=60) as tiergate:
        tiergate.storage.copy_segment(metadata, deadly)
        assert killings.places == []
        assert killings.begun_uploads > KILLS // 2  # the stream was indeed cut, but for kills right behind another
        sent_bytes = sum(replica.proxy.sent_bytes for replica in replicas)
        print(f"{sent_bytes / LOG_BYTES:.2f} times its size was sent")
        assert sent_bytes < 1.5 * LOG_BYTES
        verified = list(tiergate.storage.verify_segment(metadata))
        assert verified[-1].is_complete
        assert not any(progress.damages for progress in verified)
        with tiergate.storage.fetch_segment(metadata) as stream:
            assert stream.read() == data.log
        assert list(tiergate.storage.list_uploads(metadata.partition)) == []
