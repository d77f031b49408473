"""Runs calls at once, one step of one of them at a time, in every order that makes a difference. It knows no store.

Each call has a thread, which runs from one step to the next and then waits for its turn. Two orders that lead to the
same state, with every call having seen the same answers, go on alike: one of them is followed, so that all orders are
covered although few are run. Calls have to be deterministic: what they do next depends on the answers they have seen.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

_TURN_TIMEOUT_S = 20


class Abandoned(BaseException):
    """Ends the thread of a call that is not followed any further."""


class Turns:
    """The turns of one call, which says with `wait` that it is about to do a step, with `saw` what came of it."""

    def __init__(self) -> None:
        self._given = threading.Semaphore(0)
        self._taken = threading.Semaphore(0)
        self._is_abandoned = False
        self.is_over = False
        self.seen: Hashable = ()

    def wait(self) -> None:
        if self._is_abandoned:  # and cleans up
            raise Abandoned
        self._taken.release()
        if not self._given.acquire(timeout=_TURN_TIMEOUT_S) or self._is_abandoned:
            raise Abandoned

    def saw(self, answer: object) -> None:
        self.seen = hash((self.seen, repr(answer)))

    def end(self) -> None:
        self.is_over = True
        self._taken.release()

    def give(self) -> None:
        """Returns when the step, and what the call does behind it, is done."""
        self._given.release()
        self.settle()

    def settle(self) -> None:
        assert self._taken.acquire(timeout=_TURN_TIMEOUT_S), "a call does not come to its next step"

    def abandon(self) -> None:
        self._is_abandoned = True
        self._given.release()


Call = Callable[[Turns], str]


class World(ABC):
    """What the calls of one run share."""

    @property
    @abstractmethod
    def calls(self) -> Sequence[Call]:
        """Each does its steps in turns, and answers."""

    @abstractmethod
    def fingerprint(self) -> Hashable:
        """The same for worlds that behave alike from now on."""


@dataclass(slots=True)
class _Running:
    turns: Turns
    thread: threading.Thread
    answers: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the calls have come to. `answers` has those of the calls that are over, None for the others."""

    schedule: tuple[int, ...]
    answers: tuple[str | None, ...]

    @property
    def is_last(self) -> bool:
        return None not in self.answers


class Run:
    """One run of the calls of a world, step by step. As a context it leaves no thread behind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._schedule: list[int] = []
        self._running = [self._started(number, call) for number, call in enumerate(world.calls)]

    @property
    def moment(self) -> Moment:
        for running in self._running:
            if running.failures:
                raise running.failures[0]
        return Moment(
            tuple(self._schedule),
            tuple(running.answers[0] if running.turns.is_over else None for running in self._running),
        )

    @property
    def state(self) -> Hashable:
        return self._world.fingerprint(), tuple((it.turns.seen, tuple(it.answers)) for it in self._running)

    @property
    def waiting(self) -> list[int]:
        return [number for number, running in enumerate(self._running) if not running.turns.is_over]

    def advance(self, number: int) -> None:
        self._schedule.append(number)
        self._running[number].turns.give()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running:
            running.turns.abandon()
            running.thread.join()

    def _started(self, number: int, call: Call) -> _Running:
        turns = Turns()

        def follow() -> None:
            try:
                running.answers.append(call(turns))
            except Abandoned:
                pass
            except BaseException as failure:  # noqa: BLE001 (raised in the thread that follows the run)
                running.failures.append(failure)
            turns.end()

        running = _Running(turns, threading.Thread(target=follow, name=f"call-{number}", daemon=True))
        running.thread.start()
        turns.settle()
        return running


def every_moment(make: Callable[[], World], observe: Callable[[World, Moment], None]) -> int:
    """Calls `observe` once at every state that any order of the steps leads to; how many there were."""
    seen: set[Hashable] = set()
    beginnings: list[tuple[int, ...]] = [()]
    while beginnings:
        beginning = beginnings.pop()
        world = make()
        with Run(world) as run:
            for number in beginning:
                run.advance(number)
            while (state := run.state) not in seen:
                seen.add(state)
                observe(world, run.moment)
                waiting = run.waiting
                if not waiting:
                    break
                beginnings.extend((*run.moment.schedule, other) for other in waiting[1:])
                run.advance(waiting[0])
    return len(seen)


def one_run(world: World, choices: Iterator[int]) -> Moment:
    """The end of one run in which the next call to move is the one that `choices` gives, modulo those that wait."""
    with Run(world) as run:
        while waiting := run.waiting:
            run.advance(waiting[next(choices) % len(waiting)])
        return run.moment
