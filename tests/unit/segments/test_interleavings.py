"""Copies, deletes and aborts of one segment at once, in every order of their operations on the store."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any, cast

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from support.forgetful_disk import ForgetfulDisk
from support.interleavings import Moment, Turns, World, every_moment, one_run
from support.segment_races import ABORT_OF_LARGE, LARGE_RACES, RACES, RACES_OF_THREE, Race, Replicas
from tiergate_server.adapters import filesystem_store
from tiergate_server.adapters.disk import Disk
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.object_store import ObjectStore

ROOT = Path("/store")
MORE_RACES = ABORT_OF_LARGE | RACES_OF_THREE
ALL_RACES = RACES | LARGE_RACES | MORE_RACES


class ReplicasOnADisk(Replicas):
    def __init__(self, race: Race) -> None:
        self.disk = ForgetfulDisk()
        super().__init__(race, lambda: closing(FilesystemStore(ROOT, disk=self.disk, clock=lambda: 0)))

    def fingerprint(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self._files_below(ROOT)))

    def _files_below(self, directory: Path) -> Iterator[tuple[str, int]]:
        for entry in self.disk.entries(directory):
            path = directory / entry.name
            if entry.is_directory:
                yield from self._files_below(path)
            else:
                handle = self.disk.open(path)
                yield str(path), crc32c(self.disk.read(handle, entry.size_bytes, offset=0))
                self.disk.close(handle)


@pytest.fixture
def named_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles that a call gets in every run alike, so that states can be compared."""
    counts = threading.local()

    class Tokens:
        @staticmethod
        def token_hex(size: int) -> str:
            counts.value = getattr(counts, "value", 0) + 1
            number = int(threading.current_thread().name.removeprefix("call-"))
            return f"{number:0{size}x}{counts.value:0{size}x}"

    monkeypatch.setattr(filesystem_store, "secrets", Tokens)


class SteppedDisk:
    """A disk on which every operation is a step: finer than those of the store, which consist of them."""

    def __init__(self, disk: Disk, turns: Turns) -> None:
        self._disk = disk
        self._turns = turns

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def stepped(*arguments: Any, **named: Any) -> Any:
            self._turns.wait()
            return getattr(self._disk, name)(*arguments, **named)

        return stepped


class ReplicasMeetingInOperations(ReplicasOnADisk):
    def watched(self, store: ObjectStore, turns: Turns) -> ObjectStore:  # noqa: ARG002
        return FilesystemStore(ROOT, disk=cast("Disk", SteppedDisk(self.disk, turns)), clock=lambda: 0)


def check_every_order(race: Race) -> None:
    states: dict[Hashable, str] = {}
    ends: set[tuple[str | None, ...]] = set()

    def observe(world: World, moment: Moment) -> None:
        assert isinstance(world, ReplicasOnADisk)
        files = world.fingerprint()
        if files not in states:
            states[files] = world.state()
        assert states[files] in {"absent", "whole"}, moment
        if moment.is_last:
            world.require_good_end(moment)
            assert not [path for path, _ in files if "/." in path], moment
            ends.add((*moment.answers, states[files]))

    every_moment(lambda: ReplicasOnADisk(race), observe)
    assert ends == race.ends


@pytest.mark.usefixtures("named_uploads")
@pytest.mark.parametrize("race", [*RACES.values(), *LARGE_RACES.values()], ids=[*RACES, *LARGE_RACES])
def test_segment_is_whole_or_clearly_refused_in_every_order(race: Race) -> None:
    check_every_order(race)


@pytest.mark.usefixtures("named_uploads")
@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("race", MORE_RACES.values(), ids=MORE_RACES)
def test_segment_is_whole_or_clearly_refused_in_every_order_of_more(race: Race) -> None:
    check_every_order(race)


@pytest.mark.parametrize("race", ALL_RACES.values(), ids=ALL_RACES)
@given(lengths=st.lists(st.integers(1, 150), max_size=6), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_segment_is_whole_or_clearly_refused_when_replicas_meet_inside_operations(
    race: Race, lengths: list[int], seed: int
) -> None:
    world = ReplicasMeetingInOperations(race)
    rest = random.Random(seed)
    stretches = chain.from_iterable(repeat(number, length) for number, length in enumerate(lengths))
    moment = one_run(world, chain(stretches, iter(lambda: rest.randrange(60), -1)))
    world.require_good_end(moment, are_steps_of_the_store=False)
    assert not [path for path, _ in world.fingerprint() if "/." in path]
