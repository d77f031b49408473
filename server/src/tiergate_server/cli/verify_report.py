"""What a verification came to, for people and for programs, and the bar while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import SegmentId
from tiergate_client.sizes import size_text
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_client.verification import VerificationProgress
from tiergate_server.cli.console import Column, counted, print_table, stderr_console, stdout_console
from tiergate_server.cli.documents import segment_document
from tiergate_server.cli.failures import describe
from tiergate_server.cli.transfers import transfer_progress
from tiergate_server.cli.verify_run import Observer, Verdict

_COLUMNS = (
    Column("SEGMENT", style="cyan"),
    Column("PARTITION", folds=True),
    Column("FILE"),
    Column("POSITION", "right"),
    Column("WHAT", style="red", folds=True),
)


@dataclass(slots=True)
class VerifyOutcome:
    """Counts what is whole, keeps what is not."""

    whole_segments: int = 0
    gone_segments: int = 0
    verified_bytes: int = 0
    damaged: list[Verdict] = field(default_factory=list)
    failed: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.verified_bytes += verdict.verified_bytes
        if verdict.findings:
            self.damaged.append(verdict)
        elif verdict.failure is not None:
            self.failed.append(verdict)
        elif verdict.is_gone:
            self.gone_segments += 1
        else:
            self.whole_segments += 1

    @property
    def exit_code(self) -> ExitCode:
        """Damage counts more than what is not known."""
        if self.damaged:
            return ExitCode.FAILED
        failures = (verdict.failure for verdict in self.failed if verdict.failure is not None)
        return next((describe(failure).exit_code for failure in failures), ExitCode.DONE)

    def document(self) -> dict[str, Any]:
        return {
            "whole_segment_count": self.whole_segments,
            "deleted_segment_count": self.gone_segments,
            "verified_bytes": self.verified_bytes,
            "damaged": [
                {
                    "segment": segment_document(verdict.metadata),
                    "damages": [
                        {"file": found.file, "position": found.position, "fact": found.fact}
                        for found in verdict.findings
                    ],
                }
                for verdict in self.damaged
            ],
            "not_verified": [
                {"segment": segment_document(verdict.metadata), "error": _why(verdict)} for verdict in self.failed
            ],
        }

    def print(self) -> None:
        console = stdout_console()
        rows = [row for verdict in (*self.damaged, *self.failed) for row in _rows(verdict)]
        if rows:
            print_table(console, _COLUMNS, rows)
            console.print()
        size = size_text(self.verified_bytes)
        total = self.whole_segments + len(self.damaged)
        gone = f"; {counted(self.gone_segments, 'segment')} deleted meanwhile" if self.gone_segments else ""
        if self.failed:
            gone += f"; {counted(len(self.failed), 'segment')} not verified, try again"
        if not self.damaged:
            line = f"{counted(total, 'segment')} verified, {size}, nothing differs{gone}"
        else:
            line = (
                f"{len(self.damaged)} of {counted(total, 'segment')} damaged, {size} verified{gone}; restore the "
                "objects, or remove the segments with `tiergate rm` and put them again"
            )
        console.print(line, markup=False, soft_wrap=True)


@contextmanager
def verify_progress(*, total_bytes: int, quiet: bool) -> Iterator[Observer]:
    """A bar on a terminal, otherwise nothing."""
    console = stderr_console()
    if quiet or not console.is_terminal:
        yield lambda _metadata, _progress: None
        return
    with transfer_progress(console) as bar:
        task = bar.add_task("verifying", total=total_bytes)
        done_bytes: dict[SegmentId, int] = {}
        lock = threading.Lock()

        def observe(metadata: RemoteLogSegmentMetadata, progress: VerificationProgress) -> None:
            # Metadata knows the size of the log only: what the indexes add is left out of both sides.
            now_bytes = min(progress.verified_bytes, metadata.segment_size_bytes)
            with lock:
                before_bytes = done_bytes.get(metadata.segment_id, 0)
                done_bytes[metadata.segment_id] = now_bytes
                if progress.is_complete:
                    del done_bytes[metadata.segment_id]
            bar.advance(task, now_bytes - before_bytes)

        yield observe


def _rows(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    partition = verdict.metadata.partition
    names = (str(verdict.metadata.segment_id), f"{partition.topic}-{partition.partition}")
    for found in verdict.findings:
        yield (*names, found.file.replace("_", "-"), str(found.position), found.fact)
    if verdict.failure is not None:
        yield (*names, "-", "-", f"not verified to its end: {_why(verdict)}")


def _why(verdict: Verdict) -> str:
    return "" if verdict.failure is None else verdict.failure.message
