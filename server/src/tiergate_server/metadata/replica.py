"""This replica of the metadata: who may be answered from what it has applied, and publishing with a verdict.

It runs on one event loop. Following the log is the follower's work; which changes may be asked for is the manager's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from tiergate_client.errors import (
    CommitStateUnknown,
    LogChanged,
    MetadataCorrupt,
    MetadataLogUnavailable,
    MetadataNotReady,
    NotHosted,
)
from tiergate_client.values import ConsistencyToken, RemotePartitionDeleteMetadata
from tiergate_server.metadata.event_codec import MetadataEvent, encode_event
from tiergate_server.metadata.hosted_partition import HostedPartition
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.progress import PartitionProgress
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.verdict import Verdict

_LONGEST_TOKEN_WAIT_S = 1.0
_LONGEST_PUBLISH_WAIT_S = 120.0
_RETRY_AFTER_MS = 100


class CallTerms(NamedTuple):
    """What a caller brings along: how far its view of the log is, and how long it waits."""

    token: ConsistencyToken | None = None
    timeout_s: float = 30.0


class MetadataReplica:
    """Answers only when it knows: hosted, caught up, and as far as the caller has seen."""

    def __init__(self, follower: LogFollower) -> None:
        self.follower = follower
        self.log = follower.log
        self._undecided: dict[object, set[asyncio.Task[Verdict]]] = {}

    @property
    def hosted(self) -> Mapping[int, HostedPartition]:
        return self.follower.hosted

    def state(self, home: int) -> MetadataState:
        return self.hosted[home].state

    def token(self, homes: Iterable[int]) -> ConsistencyToken:
        """Says of an answer that was just made how far it has seen the log."""
        hosted = self.hosted
        return ConsistencyToken(
            self.log.log_id, {home: hosted[home].progress.applied for home in homes if home in hosted}
        )

    async def settle(self, homes: Sequence[int], terms: CallTerms) -> None:
        """Returns when these metadata partitions are ready and as far as the caller's token."""
        if not self.follower.is_started:
            raise _not_ready("this replica is starting")
        for home in homes:
            self._require_ready(home)
        token = terms.token
        if token is None:
            return
        if token.log_id != self.log.log_id:
            raise LogChanged(f"the token is of the metadata log {token.log_id}, this is {self.log.log_id}; drop it")
        behind = {
            home: token.applied_offsets[home]
            for home in homes
            if token.applied_offsets.get(home, -1) > self.hosted[home].progress.applied
        }
        if behind:
            await self._catch_up(behind, min(terms.timeout_s / 2, _LONGEST_TOKEN_WAIT_S))
            for home in homes:  # what was hosted then may not be any more
                self._require_ready(home)

    def _require_ready(self, home: int) -> None:
        partition = self.hosted.get(home)
        if partition is None:
            raise NotHosted(
                f"this replica does not host metadata partition {home}; go to one that does",
                details={"hosted": as_ranges(self.hosted)},
            )
        corrupt_at = partition.progress.corrupt_at
        if corrupt_at is not None:
            raise MetadataCorrupt(
                f"metadata partition {home} cannot be read from offset {corrupt_at} on",
                details={"partition": str(home), "offset": str(corrupt_at)},
            )
        if not partition.progress.is_ready:
            raise _not_ready(f"this replica has not caught up with metadata partition {home}")

    async def _catch_up(self, behind: dict[int, int], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                ends = await asyncio.to_thread(self.log.end_offsets, list(behind))
        except TimeoutError:
            raise _not_ready("this replica is behind the token, and the log does not say where it ends") from None
        for home, offset in behind.items():
            if offset >= ends[home]:
                raise LogChanged(
                    f"the token is at offset {offset} of metadata partition {home}, whose log ends at {ends[home]}: "
                    "the log lost its end or was made anew; drop the token"
                )
            partition = self.hosted.get(home)
            reached = partition and await partition.progress.reach(offset, timeout_s=deadline - time.monotonic())
            if not reached:
                raise _not_ready(f"this replica is behind the token in metadata partition {home}")

    async def publish(self, home: int, event: MetadataEvent, *, deadline: float) -> Verdict:
        """Appends an event, never after the deadline, and waits for what the log decides about it."""
        if _remaining(deadline) <= 0:
            raise _not_published()
        progress = self.hosted[home].progress
        begun_after = progress.begin_publishing()
        published = self.log.publish(home, encode_event(event))
        fate = asyncio.create_task(_fate(progress, begun_after, published))
        subject = _subject(event)
        self._undecided.setdefault(subject, set()).add(fate)
        fate.add_done_callback(lambda _: self._decided(subject, fate))
        try:
            async with asyncio.timeout(_remaining(deadline)):
                return await asyncio.shield(fate)
        except TimeoutError:
            raise (_not_published() if published.cancel() else _fate_unknown()) from None
        except asyncio.CancelledError:
            published.cancel()
            raise

    async def undecided(self, event: MetadataEvent, *, deadline: float) -> None:
        """Returns when nothing that was published about the same segment or partition is undecided.

        A repeated call must see what became of the first one, whose caller may have left: published twice, an event
        may change what came in between.
        """
        while pending := self._undecided.get(_subject(event)):
            done, _ = await asyncio.wait(pending, timeout=max(0.0, _remaining(deadline)))
            if not done:
                raise _fate_unknown()

    def _decided(self, subject: object, fate: asyncio.Task[Verdict]) -> None:
        self._undecided[subject].discard(fate)
        if not self._undecided[subject]:
            del self._undecided[subject]
        if not fate.cancelled():
            fate.exception()  # retrieved: its caller may have left


async def _fate(progress: PartitionProgress, begun_after: int, published: Future[int]) -> Verdict:
    """Ends when the event is applied, or surely never will be."""
    try:
        offset = await asyncio.wrap_future(published)
        await progress.reach(offset, timeout_s=None)
        verdict = progress.verdict(offset)
    except asyncio.CancelledError:
        raise _not_published() from None
    finally:
        progress.end_publishing(begun_after)
    if verdict is None:
        raise _fate_unknown()
    return verdict


def as_ranges(numbers: Iterable[int]) -> str:
    """For people: 0-3,7 for 0, 1, 2, 3 and 7."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, bounds)) for bounds in ranges)


def _subject(event: MetadataEvent) -> object:
    return event.partition if isinstance(event, RemotePartitionDeleteMetadata) else event.segment_id


def _not_published() -> MetadataLogUnavailable:
    return MetadataLogUnavailable(
        "the metadata log did not take the event in time; try again", retry_after_ms=_RETRY_AFTER_MS
    )


def _remaining(deadline: float) -> float:
    return min(deadline - time.monotonic(), _LONGEST_PUBLISH_WAIT_S)


def _not_ready(why: str) -> MetadataNotReady:
    return MetadataNotReady(f"{why}; try again, on any replica", retry_after_ms=_RETRY_AFTER_MS)


def _fate_unknown() -> CommitStateUnknown:
    return CommitStateUnknown("the event was published, but was not applied in time; repeat the call or read first")
