r"""Leader epochs: which epoch begins at which offset, inside a segment or over a whole log.

Also the text of Kafka's leader-epoch checkpoint, which is the LEADER_EPOCH index of a segment:

    checkpoint = "0" LF count LF { epoch SP start-offset LF }

for example `0\n2\n0 0\n3 150\n`: epoch 0 from offset 0, epoch 3 from offset 150.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from tiergate_client.errors import InvalidField
from tiergate_client.integers import require_int32, require_int64

# Bounded, since Python refuses to read numbers of thousands of digits.
_ENTRY = re.compile(rb"(\d{1,20}) (\d{1,20})")
_COUNT = re.compile(rb"\d{1,20}")


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """Ascending (epoch, start offset) pairs, each epoch once. May be empty."""

    entries: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        previous = None
        for epoch, start_offset in self.entries:
            require_int32("leader_epoch", epoch)
            require_int64("start_offset", start_offset)
            if previous is not None and epoch <= previous:
                raise InvalidField.of("leader_epoch", f"epochs ascend, but {epoch} comes after {previous}")
            previous = epoch

    @classmethod
    def of(cls, starts: Mapping[int, int] | Iterable[tuple[int, int]]) -> Self:
        pairs = starts.items() if isinstance(starts, Mapping) else starts
        return cls(tuple(sorted(pairs)))

    @classmethod
    def from_checkpoint(cls, text: bytes) -> Self:
        if not text:
            return cls(())
        lines = text.removesuffix(b"\n").split(b"\n")
        if lines[0] != b"0":
            raise InvalidField.of("leader_epoch_checkpoint", f"version {lines[0]!r} is not known, only 0 is")
        if len(lines) < 2 or not _COUNT.fullmatch(lines[1]) or int(lines[1]) != len(lines) - 2:
            raise InvalidField.of("leader_epoch_checkpoint", "the entry count does not match the entries")
        matches = [_ENTRY.fullmatch(line) for line in lines[2:]]
        if not all(matches):
            raise InvalidField.of("leader_epoch_checkpoint", "an entry is not '<epoch> <start offset>'")
        return cls(tuple((int(match[1]), int(match[2])) for match in matches if match))

    def to_checkpoint(self) -> bytes:
        lines = ["0", str(len(self.entries)), *(f"{epoch} {start}" for epoch, start in self.entries)]
        return ("\n".join(lines) + "\n").encode("ascii")

    def within(self, start_offset: int, end_offset: int) -> LeaderEpochs:
        """The epochs of the offsets [start_offset, end_offset], the first one clipped up to start_offset."""
        clipped: dict[int, int] = {}
        for position, (epoch, start) in enumerate(self.entries):
            is_last = position + 1 == len(self.entries)
            next_start = None if is_last else self.entries[position + 1][1]
            if start <= end_offset and (next_start is None or next_start > start_offset):
                clipped[epoch] = max(start, start_offset)
        return LeaderEpochs.of(clipped)

    def up_to(self, end_offset: int) -> LeaderEpochs:
        """Every entry from the beginning to end_offset inclusive."""
        return LeaderEpochs(tuple(entry for entry in self.entries if entry[1] <= end_offset))

    def ranges(self, end_offset: int) -> Iterator[tuple[int, int, int]]:
        """(epoch, first offset, last offset) of each epoch, where the last one ends with end_offset."""
        for position, (epoch, start) in enumerate(self.entries):
            is_last = position + 1 == len(self.entries)
            yield epoch, start, end_offset if is_last else self.entries[position + 1][1] - 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
