"""Copies every event of one log into another that may have another number of partitions.

All events of a user partition go to the one partition of the target that is theirs, byte for byte and in the order of
the source. A copy that was cut off goes on where it ended: the target may hold, of each user partition, the beginning
of what the source holds, and nothing else. Where the logs are kept is not known here.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from tiergate_client.values import TopicIdPartition
from tiergate_server.metadata.event_codec import CorruptEvent, UnknownEvent, decode_event
from tiergate_server.metadata.event_log import LogRecord, MetadataEventLog
from tiergate_server.metadata.log_scan import Spans, scan, spans_of
from tiergate_server.metadata.partitioner import metadata_partition

_IN_FLIGHT = 2000

Observe: TypeAlias = Callable[[], None]
"""Called for each record that was read."""


class CopyRefused(Exception):
    """The copy cannot be made; the text says why and what to do."""


@dataclass(slots=True)
class _Chain:
    """The events of one user partition, so many and these."""

    count: int = 0
    digest: bytes = b""

    def append(self, value: bytes) -> None:
        self.count += 1
        self.digest = hashlib.blake2b(self.digest + value, digest_size=32).digest()


_Chains: TypeAlias = dict[TopicIdPartition, _Chain]


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What a copy consists of, all of it checked."""

    spans: Spans
    skip: frozenset[tuple[int, int]]
    event_count: int
    unknown_count: int
    """Records of kinds that this release does not know, or that shall be passed over: they are left out."""
    present_count: int
    """Events that are in the target already."""
    present: Mapping[TopicIdPartition, int] = field(repr=False)
    chains: Mapping[TopicIdPartition, _Chain] = field(repr=False)


def plan_copy(
    source: MetadataEventLog,
    target: MetadataEventLog | None,
    *,
    skip: Collection[tuple[int, int]] = (),
    observe: Observe = lambda: None,
) -> CopyPlan:
    """Reads both logs, the target may not exist yet; raises CopyRefused before anything is written."""
    if target is not None and target.log_id == source.log_id:
        raise CopyRefused(f"source and target are the same log, {source.log_id}: name another target")
    present = {} if target is None else _chains_of(target)
    spans, skipped = spans_of(source), frozenset(skip)
    chains: _Chains = {}
    unknown_count = 0
    for record in scan(source, spans):
        observe()
        partition = _user_partition(record, source, skipped)
        if partition is None:
            unknown_count += 1
            continue
        chain = chains.setdefault(partition, _Chain())
        chain.append(record.value)
        there = present.get(partition)
        if there is not None and there.count == chain.count and there.digest != chain.digest:
            raise _is_no_prefix(partition)
    for partition, there in present.items():
        if partition not in chains or there.count > chains[partition].count:
            raise _is_no_prefix(partition)
    return CopyPlan(
        spans=spans,
        skip=skipped,
        event_count=sum(chain.count for chain in chains.values()),
        unknown_count=unknown_count,
        present_count=sum(chain.count for chain in present.values()),
        present={partition: chain.count for partition, chain in present.items()},
        chains=chains,
    )


def copy_events(
    plan: CopyPlan, source: MetadataEventLog, target: MetadataEventLog, *, observe: Observe = lambda: None
) -> None:
    """Appends what the target lacks; when it returns all of it is durable, and was read back and compared.

    Raises CopyRefused when the target is not the copy then, and whatever publishing raises: what was appended until
    then stays, and the same copy can be begun again.
    """
    pending: deque[Future[int]] = deque()
    try:
        for partition, record in _missing(plan, source, observe):
            if len(pending) >= _IN_FLIGHT:
                pending.popleft().result()
            home = metadata_partition(partition, partition_count=target.partition_count)
            pending.append(target.publish(home, record.value))
        while pending:
            pending.popleft().result()
    finally:
        for future in pending:  # behind one that failed: it would leave a gap
            future.cancel()
    if _chains_of(target) != plan.chains:
        raise CopyRefused("the target does not hold what was copied: did somebody else write to it? Take an empty one")


def _missing(
    plan: CopyPlan, source: MetadataEventLog, observe: Observe
) -> Iterator[tuple[TopicIdPartition, LogRecord]]:
    left = dict(plan.present)
    for record in scan(source, plan.spans):
        observe()
        partition = _user_partition(record, source, plan.skip)
        if partition is None:
            continue
        if left.get(partition, 0):
            left[partition] -= 1
        else:
            yield partition, record


def _user_partition(
    record: LogRecord, source: MetadataEventLog, skip: frozenset[tuple[int, int]]
) -> TopicIdPartition | None:
    """Whose event it is; None for one to leave out."""
    place = f"the record at offset {record.offset} of partition {record.partition} of the source"
    try:
        partition = decode_event(record.value).partition
    except UnknownEvent:
        return None
    except CorruptEvent as reason:
        if (record.partition, record.offset) in skip:
            return None
        raise CopyRefused(
            f"{place} cannot be read ({reason}): nothing more is copied; to leave it out, add "
            f"{record.partition}:{record.offset} to metadata.skip"
        ) from None
    if metadata_partition(partition, partition_count=source.partition_count) != record.partition:
        raise CopyRefused(
            f"{place} is of {partition}, whose events belong into another one: its answers would change with a copy"
        )
    return partition


def _chains_of(target: MetadataEventLog) -> _Chains:
    chains: _Chains = {}
    for record in scan(target, spans_of(target)):
        place = f"offset {record.offset} of partition {record.partition}"
        try:
            partition = decode_event(record.value).partition
        except (UnknownEvent, CorruptEvent) as reason:
            raise CopyRefused(f"the target holds at {place} what no copy wrote ({reason}): take an empty one") from None
        if metadata_partition(partition, partition_count=target.partition_count) != record.partition:
            raise CopyRefused(f"the target holds at {place} an event that no copy put there: take an empty one")
        chains.setdefault(partition, _Chain()).append(record.value)
    return chains


def _is_no_prefix(partition: TopicIdPartition) -> CopyRefused:
    return CopyRefused(
        f"the target is not empty, and what it holds of {partition} is not the beginning of what the source holds: "
        "take an empty one"
    )
