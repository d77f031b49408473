"""kill -9 of either plane at any moment, under clients that copy, update and delete.

Afterwards every acknowledged change is there, nothing half is readable, and each failure was a documented error.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from support.planes import Planes, running_planes
from support.segments import make_data
from tiergate_client import LogSegmentData, RemoteLogSegmentMetadata, SegmentState, Tiergate, connect
from tiergate_client.errors import (
    CommitStateUnknown,
    DeadlineExceeded,
    SegmentConflict,
    SegmentNotFound,
    TiergateError,
    Unavailable,
)

KILLS = int(os.environ.get("KILLS", "200"))
WRITERS = 3
# What a client may be told while planes die and come back.
DOCUMENTED = (Unavailable, CommitStateUnknown, DeadlineExceeded)
GONE = None


@dataclass
class Story:
    """One segment's life as its writer knows it."""

    metadata: RemoteLogSegmentMetadata
    log_bytes: int
    seed: int
    # What the last acknowledged call says, and what a call without an answer may have changed since.
    states: set[SegmentState | None] = field(default_factory=lambda: {GONE})
    readable: set[bool] = field(default_factory=lambda: {False})

    @property
    def data(self) -> LogSegmentData:
        """Made anew each time: thousands of them would not fit into memory."""
        return make_data(log_bytes=self.log_bytes, seed=self.seed, with_txn_index=True)

    def step(self, tiergate: Tiergate, state: SegmentState, custom_metadata: bytes | None = None) -> None:
        result = GONE if state is SegmentState.DELETE_FINISHED else state
        self.states |= {result}
        if state is SegmentState.COPY_STARTED:
            tiergate.metadata.add_segment(self.metadata)
        else:
            tiergate.metadata.update_segment(
                self.metadata.step(state, event_timestamp_ms=1, custom_metadata=custom_metadata)
            )
        self.states = {result}

    def copy(self, tiergate: Tiergate) -> bytes:
        self.readable |= {True}
        custom_metadata = tiergate.storage.copy_segment(self.metadata, self.data)
        self.readable = {True}
        return custom_metadata

    def erase(self, tiergate: Tiergate) -> None:
        self.readable |= {False}
        tiergate.storage.delete_segment(self.metadata)
        self.readable = {False}


class Writer(threading.Thread):
    """Leads one segment after another through its life; gives up on one whose call failed, and goes on."""

    def __init__(self, target: str, *, seed: int, timeout_s: float, stop: threading.Event) -> None:
        super().__init__()
        self._target = target
        self._random = random.Random(seed)
        self._timeout_s = timeout_s
        self._stop_asked = stop
        self.stories: list[Story] = []
        self.failures: list[TiergateError] = []
        self.crash: BaseException | None = None

    def run(self) -> None:
        try:
            with connect(self._target, timeout_s=self._timeout_s) as tiergate:
                while not self._stop_asked.is_set():
                    self._live(tiergate)
        except BaseException as crash:
            self.crash = crash
            raise

    def _live(self, tiergate: Tiergate) -> None:
        story = Story(
            new_segment(new_partition(), 0, 99),
            log_bytes=self._random.randrange(3_000_000),
            seed=self._random.getrandbits(32),
        )
        self.stories.append(story)
        try:
            story.step(tiergate, SegmentState.COPY_STARTED)
            custom_metadata = story.copy(tiergate)
            story.step(tiergate, SegmentState.COPY_FINISHED, custom_metadata)
            if self._random.random() < 0.4:
                story.step(tiergate, SegmentState.DELETE_STARTED, custom_metadata)
                story.erase(tiergate)
                story.step(tiergate, SegmentState.DELETE_FINISHED, custom_metadata)
        except DOCUMENTED as failure:
            self.failures.append(failure)


def kill_again_and_again(planes: Planes, *, kills: int, seed: int) -> dict[str, int]:
    chance = random.Random(seed)
    killed = {"metadata": 0, "segments": 0}
    for _ in range(kills):
        time.sleep(chance.uniform(0, 0.25))
        victim = chance.choice((planes.metadata, planes.segments))
        victim.kill()
        victim.start()
        killed[victim.plane] += 1
    return killed


def check(story: Story, tiergate: Tiergate) -> None:
    try:
        found = tiergate.metadata.get_segment(story.metadata.segment_id, partition=story.metadata.partition)
        state: SegmentState | None = found.state
    except SegmentNotFound:
        state = GONE
    assert state in story.states, (story.metadata.segment_id, state, story.states)
    try:
        with tiergate.storage.fetch_segment(story.metadata) as stream:
            assert stream.read() == story.data.log, "half a segment is readable"
        readable = True
        indexes = story.data.sources
        for file in (file for file in indexes if file.value != "log"):
            assert tiergate.storage.fetch_index(story.metadata, file) == indexes[file]
    except SegmentNotFound:
        readable = False
    assert readable in story.readable, (story.metadata.segment_id, readable, story.readable)
    found_by_offset = tiergate.metadata.find_segment(story.metadata.partition, leader_epoch=0, offset=50)
    assert (found_by_offset is not None) == (state is SegmentState.COPY_FINISHED)
    if found_by_offset is not None:
        assert readable, "found by offset, but its bytes are not there"


@pytest.mark.timeout(KILLS * 5 + 120)
def test_every_acknowledged_change_survives_kills_at_any_moment(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {KILLS} kills")
    with running_planes(tmp_path) as planes:
        stop = threading.Event()
        # Patient writers ride over a restart; an impatient one is left with unknown outcomes.
        writers = [
            Writer(planes.target, seed=seed + number, timeout_s=0.4 if number == 0 else 20, stop=stop)
            for number in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        try:
            killed = kill_again_and_again(planes, kills=KILLS, seed=seed)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert not [writer.crash for writer in writers if writer.crash]
        stories = [story for writer in writers for story in writer.stories]
        with connect(planes.target, timeout_s=20) as tiergate:
            for story in stories:
                check(story, tiergate)
            for story in stories[:50]:
                _retry(story, tiergate)
        failures = [type(failure).__name__ for writer in writers for failure in writer.failures]
        print(f"{len(stories)} segments, killed {killed}, failures {dict(Counter(failures))}")
        assert min(killed.values()) > 0
        assert sum(story.states == {SegmentState.COPY_FINISHED} for story in stories) >= KILLS // 10


def _retry(story: Story, tiergate: Tiergate) -> None:
    """What failed half way can be done again, or is refused for good because it was deleted."""
    try:
        tiergate.storage.copy_segment(story.metadata, story.data)
    except SegmentConflict:
        assert story.readable != {True}
