"""What is told at the end of an export, to a person or as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tiergate_client.sizes import size_text
from tiergate_spark.pipelines.export_coverage import Run, joined
from tiergate_spark.pipelines.export_layout import OffsetRange

_MOST_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What this run added."""

    path: str
    records: int
    ranges: int
    read_bytes: int
    stop_offsets: Mapping[int, int]
    """Where the next run goes on, by partition."""
    filled: tuple[OffsetRange, ...]
    """Those of the ranges that lie before what earlier runs have exported: they came into the tier late."""
    seconds: float

    def document(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "records": self.records,
            "ranges": self.ranges,
            "read_bytes": self.read_bytes,
            "stop_offsets": {str(partition): stop for partition, stop in sorted(self.stop_offsets.items())},
            "filled": [asdict(one) for one in self.filled],
            "seconds": round(self.seconds, 3),
        }

    def text(self) -> str:
        if not self.ranges:
            return f"nothing new since the last export to {self.path}"
        partitions = f"{len(self.stop_offsets)} partition{'' if len(self.stop_offsets) == 1 else 's'}"
        text = (
            f"{self.records} records of {partitions} exported to {self.path} "
            f"({size_text(self.read_bytes)} read in {self.seconds:.1f} s)"
        )
        filled = self._filled_texts()
        if not filled:
            return text
        more = [f"{len(filled) - _MOST_TOLD} more"] if len(filled) > _MOST_TOLD else []
        told = ", ".join(filled[:_MOST_TOLD] + more)
        return f"{text}; among them offsets that came into the tier after later ones were exported: {told}"

    def _filled_texts(self) -> list[str]:
        by_partition: dict[int, list[Run]] = {}
        for one in self.filled:
            by_partition.setdefault(one.partition, []).append(one.run)
        return [
            f"{start} to {stop - 1} of partition {partition}"
            for partition, runs in sorted(by_partition.items())
            for start, stop in joined(runs)
        ]
