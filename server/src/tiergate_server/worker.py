"""Which of several processes of one plane this one is. How they are started is the command line's business."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Worker:
    """The one of this `number`, from 1, among `count`; all of them keep what they count in `counts_directory`."""

    number: int
    count: int
    counts_directory: Path
