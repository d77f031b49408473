"""Which offsets of a history a read covers, and when what is not there is an error. Nothing is fetched here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tiergate_client.errors import InvalidField, OffsetOutOfRange
from tiergate_client.records.history import PartitionHistory

LOSS_IS_ACCEPTED_BY: Final = "fail_on_data_loss=False"
"""As errors name the way out; who offers another one puts its name there."""


@dataclass(frozen=True, slots=True)
class AskedOffsets:
    """What a caller names: [start, stop), None for the earliest and the latest; nothing below log_start."""

    start: int | None = None
    stop: int | None = None
    log_start: int | None = None

    def __post_init__(self) -> None:
        for name, offset in (("start_offset", self.start), ("log_start_offset", self.log_start)):
            if offset is not None and offset < 0:
                raise InvalidField.of(name, f"{offset} is no offset: name one from 0 on")
        if self.stop is not None and self.stop < (self.start or 0):
            raise InvalidField.of("stop_offset", f"{self.stop} lies before the start offset {self.start or 0}")


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The offsets [start, stop) within a history, and what else was asked for but is not there, ascending."""

    start: int
    stop: int
    missing_before: tuple[tuple[int, int], ...]
    missing_behind: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, asked: AskedOffsets, history: PartitionHistory, *, fail_on_data_loss: bool) -> ReadBounds:
        """Raises OffsetOutOfRange for an offset outside of the history, unless data loss is accepted."""
        earliest = max(history.start_offset, asked.log_start or 0)
        latest = max(history.stop_offset, earliest)
        start = earliest if asked.start is None else asked.start
        stop = latest if asked.stop is None else asked.stop
        outside = [offset for offset in (start, stop) if not earliest <= offset <= latest]
        if outside and fail_on_data_loss:
            fact = f"{history.partition} can be read from offset {earliest} up to {latest}, not at {outside[0]}"
            way_out = "ask within"
            if not history.pieces:
                fact = f"nothing of {history.partition} is tiered, also not at {outside[0]}"
                way_out = "ask for no offset"
            raise OffsetOutOfRange(
                f"{fact}: {way_out}, or accept the loss of data ({LOSS_IS_ACCEPTED_BY})",
                details={"earliest": str(earliest), "latest": str(latest)},
            )
        before, behind = (start, min(stop, earliest)), (max(start, latest), stop)
        return cls(
            min(max(start, earliest), latest),
            min(max(stop, earliest), latest),
            (before,) if before[0] < before[1] else (),
            (behind,) if behind[0] < behind[1] else (),
        )


def missing_within(
    history: PartitionHistory, start_offset: int, stop_offset: int, *, fail_on_data_loss: bool
) -> tuple[tuple[int, int], ...]:
    """The holes of a history. Raises OffsetOutOfRange when there are any, unless data loss is accepted."""
    holes = tuple(history.holes(start_offset, stop_offset))
    if holes and fail_on_data_loss:
        named = ", ".join(f"{start} to {stop - 1}" for start, stop in holes)
        raise OffsetOutOfRange(
            f"{history.partition} has no finished segment that holds the offsets {named}: restore it, or accept the "
            f"loss of data ({LOSS_IS_ACCEPTED_BY})",
            details={
                "earliest": str(history.start_offset),
                "latest": str(history.stop_offset),
                "missing": ",".join(f"{start}-{stop - 1}" for start, stop in holes),
            },
        )
    return holes
