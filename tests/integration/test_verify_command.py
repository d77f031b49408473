"""`tiergate verify` as a process of its own: what it says, and how it ends on Ctrl-C in the middle of a segment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from support.guarded_server import storage_service
from support.hooked_store import HookedStore
from support.planes import Planes
from support.segments import make_data, make_metadata
from support.stored_objects import DirectoryObjects
from tiergate_client import RemoteLogSegmentMetadata, SegmentFile, SegmentState, connect
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.rpc.storage_service import handlers
from tiergate_server.segments.segment_storage import SegmentStorage

INTERRUPTED = 130


class HeldSegmentPlane:
    """A segment plane in this process, with one segment, whose store can be made to stand still."""

    def __init__(self, planes: Planes, directory: Path) -> None:
        self._planes = planes
        self.objects = DirectoryObjects(directory)
        self.store = HookedStore(FilesystemStore(directory))
        self.storage = SegmentStorage(self.store)
        self.is_held = threading.Event()
        self.let_go = threading.Event()
        self.server = grpc.server(ThreadPoolExecutor(4), handlers=[handlers(storage_service(self.storage))])
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self.server.start()
        self.segment = self._finished_segment()

    def _finished_segment(self) -> RemoteLogSegmentMetadata:
        metadata = make_metadata(topic="verified")
        with connect(self._planes.target) as tiergate:
            tiergate.metadata.add_segment(metadata)
            custom_metadata = self.storage.copy_segment(metadata, make_data())
            finish = metadata.step(
                SegmentState.COPY_FINISHED,
                event_timestamp_ms=metadata.event_timestamp_ms,
                custom_metadata=custom_metadata,
            )
            tiergate.metadata.update_segment(finish)
        return metadata

    def hold_data(self) -> None:
        """From the read of the first data file on, that is the one after the manifest's."""

        def hold() -> None:
            self.is_held.set()
            assert self.let_go.wait(60)

        def pass_the_manifest() -> None:
            self.store.before_next_read = hold

        self.store.before_next_read = pass_the_manifest

    def verify(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tiergate_server", "--target", self._planes.target]
        arguments = ["--segments", self.address, "verify", "--segment", str(self.segment.segment_id)]
        return subprocess.Popen(
            [*command, *arguments], env={**os.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


@pytest.fixture
def plane(planes: Planes, tmp_path: Path) -> Iterator[HeldSegmentPlane]:
    plane = HeldSegmentPlane(planes, tmp_path)
    yield plane
    plane.let_go.set()
    plane.server.stop(0).wait()


def test_verify_command_ends_with_0_for_what_is_whole_and_with_1_for_what_is_not(plane: HeldSegmentPlane) -> None:
    with plane.verify() as process:
        said, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (0, "")
    assert said.startswith("1 segment verified, 1.0 MiB, nothing differs")
    plane.objects.flip(plane.segment, SegmentFile.LOG, position=7)
    with plane.verify() as process:
        said, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (1, "")
    assert "does not match its checksum" in said


def test_ctrl_c_ends_a_verification_at_once_and_without_a_traceback(plane: HeldSegmentPlane) -> None:
    plane.hold_data()
    with plane.verify() as process:
        assert plane.is_held.wait(60)
        process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=30)
    assert not plane.let_go.is_set()
    assert (process.returncode, said) == (INTERRUPTED, "")
    assert complaint.strip() == "tiergate: interrupted"
