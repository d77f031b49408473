"""The file that makes a range of an export whole, and tells what else was committed by then.

    {"version": 1, "stop_offset": 70, "covered_from_offset": 36, "skipped": [[18, 36]]}

is that of a range from 55 to 69, when all from 36 on was committed and a run with --skip-missing had found 18 to 35
missing. So the files of few ranges tell what all of them hold, also when somebody has removed old ones. Which range it
is of is said by where it lies; see `export_layout.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from tiergate_spark.pipelines.export_coverage import Run
from tiergate_spark.pipelines.failures import PipelineFailed

MARKER: Final = "_tiergate_range.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class RangeMarker:
    """The end of a range, and what is known of its partition."""

    stop_offset: int
    covered_from_offset: int
    """The range's own start, or that of another one: all in between is committed."""
    skipped: tuple[Run, ...]
    """All that runs with --skip-missing found missing in the whole partition, and that was not filled in since."""

    def to_json(self) -> bytes:
        return json.dumps({"version": _VERSION, **asdict(self)}).encode("utf-8")

    @classmethod
    def from_json(cls, content: bytes | None, *, place: str) -> RangeMarker | None:
        """None when the range is not whole: its marker is missing, or was cut when its writer was killed."""
        try:
            stored = json.loads(content or b"")
        except ValueError:
            return None
        version = stored.pop("version")
        if version != _VERSION:
            raise PipelineFailed(f"{place} is of version {version}, this release knows {_VERSION}; use a newer release")
        return cls(**{**stored, "skipped": tuple((start, stop) for start, stop in stored["skipped"])})
