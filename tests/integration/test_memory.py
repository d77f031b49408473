"""Memory is bounded, whatever the size of a segment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.planes import running_planes

MIB = 1024 * 1024
SEGMENT_BYTES = 1024 * MIB

# A program of its own, so that what it measures is the client and nothing of the tests.
CLIENT = """
import sys
from pathlib import Path
from tiergate_client import (LeaderEpochs, LogSegmentData, RemoteLogSegmentMetadata, SegmentId, TopicId,
                             TopicIdPartition, connect)

target, log = sys.argv[1], Path(sys.argv[2])
metadata = RemoteLogSegmentMetadata(
    TopicIdPartition(TopicId.random(), 0, "big"), SegmentId.random(), 0, 99, LeaderEpochs.of({0: 0}), 1
)
with connect(target) as tiergate:
    tiergate.storage.copy_segment(
        metadata, LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\\n1\\n0 0\\n")
    )
    received = 0
    with tiergate.storage.fetch_segment(metadata) as stream:
        for piece in stream:
            received += len(piece)
status = Path("/proc/self/status").read_text()
print(received, next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


@pytest.mark.timeout(300)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
@pytest.mark.parametrize(("store", "plane_mib"), [("directories", 300), ("s3", 400)])
def test_gibibyte_segment_goes_up_and_down_in_bounded_memory(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, plane_mib: int
) -> None:
    settings = request.getfixturevalue("bucket").plane_settings() if store == "s3" else {}
    log = tmp_path / "big.log"
    with log.open("wb") as file:
        for number in range(SEGMENT_BYTES // MIB):
            file.write(number.to_bytes(4, "big") * (MIB // 4))
    with running_planes(tmp_path / "planes", **settings) as planes:
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, planes.target, str(log)], capture_output=True, text=True, check=False
        )
        assert client.returncode == 0, client.stderr
        received, client_kib = (int(word) for word in client.stdout.split())
        plane_bytes = planes.segments.peak_resident_bytes()
        print(f"plane {plane_bytes / MIB:.0f} MiB, client {client_kib / 1024:.0f} MiB at their peaks")
        assert received == SEGMENT_BYTES
        assert plane_bytes < plane_mib * MIB
        assert client_kib * 1024 < 150 * MIB
