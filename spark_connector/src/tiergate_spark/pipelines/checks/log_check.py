"""What every check of a log has in common, so that one walk over its batches serves all of them."""

from __future__ import annotations

from typing import Protocol

from tiergate_client.records.batch_headers import ScannedBatches


class LogCheck(Protocol):
    """Sees the batches of one segment in order, and adds what is wrong to findings it was made with."""

    def take(self, batches: ScannedBatches, *, follows: bool) -> None:
        """At least one batch, which is overwritten afterwards. `follows` is False behind bytes that can not be read."""

    def finish(self, *, is_whole: bool) -> None:
        """Called once, at the end; `is_whole` says that every byte of the log was read as a batch."""
