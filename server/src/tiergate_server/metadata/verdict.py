"""What the state made of an event: the same on every replica, since all apply the same events in the same order.

What a caller is told about it is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tiergate_client.values import SegmentState


@dataclass(frozen=True, slots=True)
class Applied:
    """The event changed the state, or repeated what holds."""


@dataclass(frozen=True, slots=True)
class IllegalTransition:
    """The segment was in `from_state`, from which no event leads to `to_state`: dropped."""

    from_state: SegmentState
    to_state: SegmentState


@dataclass(frozen=True, slots=True)
class UnknownSegment:
    """The state has no such segment, and the event is not one that begins its life: dropped."""


Verdict: TypeAlias = Applied | IllegalTransition | UnknownSegment

APPLIED = Applied()
UNKNOWN_SEGMENT = UnknownSegment()
