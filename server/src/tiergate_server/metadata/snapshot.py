"""A metadata partition as it was at one exact offset of the log, independent of what is applied afterwards.

Taking one copies in memory only, at the speed of C, in steps between which others get their turn. How it is written is
the codec's business, where it is kept the store's.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from tiergate_client.ids import LogId
from tiergate_server.metadata.state import MetadataState


class SnapshotRefused(Exception):
    """What claims to be a snapshot cannot be used; the text says why. The log still holds everything."""


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """What the records of metadata partition `number` up to `applied`, inclusive, add up to."""

    number: int
    applied: int
    leader_epoch: int
    """The log's own epoch of the record at `applied`."""
    state: MetadataState
    """To be read only: nothing is applied to it."""

    def restore(self) -> MetadataState:
        """A new state each time, with the same answers; copied at the speed of C."""
        return self.state.copy()


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """Metadata partitions of one log by their number, each at an offset of its own. Some may be missing."""

    log_id: LogId
    partition_count: int
    created_at_ms: int
    partitions: Mapping[int, PartitionSnapshot]


def capture(number: int, *, applied: int, leader_epoch: int, state: MetadataState) -> PartitionSnapshot:
    return PartitionSnapshot(number, applied, leader_epoch, state.copy())


def capture_in_steps(
    number: int, *, applied: int, leader_epoch: int, state: MetadataState
) -> Generator[None, None, PartitionSnapshot]:
    """As capture, in one step for each user partition. Nothing may be applied to the state until it is done."""
    copied = yield from state.copy_in_steps()
    return PartitionSnapshot(number, applied, leader_epoch, copied)
