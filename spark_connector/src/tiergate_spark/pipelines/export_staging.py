"""Where the ranges of an export are written before they are moved to their place.

    PATH/_tiergate/staging/1763280000000-0b5e…/_tiergate_wave           comes first, and is removed first
    PATH/_tiergate/staging/1763280000000-0b5e…/partition=0/start_offset=00000000000000000000/part-….parquet

A directory is a wave's, and named by when that began: one of an earlier day is taken for left behind by a run that was
killed. So that nothing is moved which somebody has begun to remove, a wave that is written gets a new name, of now, and
must hold its first file still. How ranges become part of the export is told in `export_layout.py`.
"""

from __future__ import annotations

import uuid
from typing import Final

from tiergate_client.clock import Clock
from tiergate_client.exit_codes import ExitCode
from tiergate_spark.pipelines.export_files import Files
from tiergate_spark.pipelines.failures import PipelineFailed

_WAVE: Final = "_tiergate_wave"
_DAY_MS: Final = 24 * 60 * 60 * 1000


class Staging:
    """The staging directories of an export, of this run and of others."""

    def __init__(self, files: Files, path: str, *, clock: Clock) -> None:
        self._files = files
        self._path = path
        self._clock = clock

    def begin(self) -> str:
        """A directory for the next wave."""
        place = self._new_place()
        self._files.write(f"{place}/{_WAVE}", b"")
        return place

    def written(self, place: str) -> str:
        """Where a wave is from now on, with all that was written. Raises PipelineFailed when it was removed."""
        fresh = self._new_place()
        try:
            self._files.rename(place, fresh)
        except FileNotFoundError:
            raise _removed(place) from None
        if self._files.read(f"{fresh}/{_WAVE}") is None:
            raise _removed(place)
        return fresh

    def remove_old(self) -> None:
        """A younger one may belong to a run that lives; nobody sees it meanwhile."""
        oldest_ms = self._clock() - _DAY_MS
        for name in self._files.children(self._path):
            began_ms, _, _ = name.partition("-")  # file systems put names of their own beside ours, such as .nfs…
            if began_ms.isdecimal() and int(began_ms) < oldest_ms:
                self._files.delete(f"{self._path}/{name}/{_WAVE}")
                self._files.delete(f"{self._path}/{name}")

    def _new_place(self) -> str:
        return f"{self._path}/{self._clock()}-{uuid.uuid4().hex}"


def _removed(place: str) -> PipelineFailed:
    return PipelineFailed(
        f"{place} was removed while it was written, as another export does with what is older than a day; run it "
        "again, one at a time, and with a smaller --commit-bytes where a commit takes that long",
        exit_code=ExitCode.REFUSED,
    )
