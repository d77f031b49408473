"""Our own client code runs from a zip on the oldest dependencies it declares, as a Spark executor would have it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from support.planes import Planes
from support.wheels import ROOT, CleanVenv, declared_dependencies, wheelhouse

pytestmark = pytest.mark.timeout(600)  # the first run downloads the wheels of others

_FLOOR = Path(__file__).with_name("floor.txt")

_ROUND_TRIP = """
import sys
archive, target = sys.argv[1:]
sys.path.insert(0, archive)

import tiergate_client
from tiergate_client import (
    LeaderEpochs, LogSegmentData, RemoteLogSegmentMetadata, SegmentFile, SegmentId, SegmentState, TopicId,
    TopicIdPartition, connect,
)

log = bytes(range(256)) * 10_000
partition = TopicIdPartition(TopicId.random(), 0, "from-a-zip")
segment = RemoteLogSegmentMetadata(
    partition=partition,
    segment_id=SegmentId.random(),
    start_offset=0,
    end_offset=99,
    segment_leader_epochs=LeaderEpochs.of({0: 0}),
    segment_size_bytes=len(log),
)
with connect(target) as tiergate:
    tiergate.metadata.add_segment(segment)
    data = LogSegmentData(log=log, offset_index=b"offsets", time_index=b"times", leader_epoch=b"epochs")
    custom = tiergate.storage.copy_segment(segment, data)
    step = segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1, custom_metadata=custom)
    tiergate.metadata.update_segment(step)
    found = tiergate.metadata.find_segment(partition, leader_epoch=0, offset=42)
    assert found is not None and found.segment_id == segment.segment_id
    with tiergate.storage.fetch_segment(found) as stream:
        assert stream.read() == log
    assert tiergate.storage.fetch_index(found, SegmentFile.TIME_INDEX) == b"times"
    try:
        tiergate.metadata.get_segment(SegmentId.random())
    except tiergate_client.TiergateError as error:
        print(type(error).__name__, error.reason)
print(tiergate_client.__file__)
"""


def _pins() -> dict[str, str]:
    lines = [line for line in _FLOOR.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("zip") / "tiergate-client.zip"
    with zipfile.ZipFile(file, "w") as zipped:
        for root, package in ((ROOT / "protos", "tiergate"), (ROOT / "client" / "python" / "src", "tiergate_client")):
            for source in sorted((root / package).rglob("*.py")):
                zipped.write(source, source.relative_to(root))
    return file


def test_floor_is_what_the_client_declares() -> None:
    declared = dict(
        requirement.partition(",")[0].split(">=")
        for requirement in declared_dependencies("client/python")
        if not requirement.startswith("tiergate-")
    )
    assert declared == _pins()


def test_client_works_from_a_zip_on_the_floor_versions(archive: Path, tmp_path: Path, planes: Planes) -> None:
    pins = [f"{name}=={version}" for name, version in _pins().items()]
    venv = CleanVenv(tmp_path / "venv")
    venv.install(*pins, find_links=[wheelhouse(pins)])
    assert venv.installed() == set(_pins())
    printed = venv.python(_ROUND_TRIP, str(archive), planes.target).splitlines()
    assert printed == ["SegmentNotFound SEGMENT_NOT_FOUND", str(archive / "tiergate_client" / "__init__.py")]
