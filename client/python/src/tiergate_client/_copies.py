"""A copy that survives broken streams: it goes on, on any replica, behind what the store has kept of the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import grpc

from tiergate_client._patience import Patience, may_pass
from tiergate_client._uploads import Upload
from tiergate_client.errors import (
    Cancelled,
    DeadlineExceeded,
    Exhausted,
    InvalidField,
    OffsetOutOfRange,
    SentDataCorrupt,
    TiergateError,
)
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.upload_progress import UploadProgress

# What breaks an upload again and again without any of it being kept will not pass.
_MOST_BROKEN_UPLOADS = 5
# Sending less than this again is cheaper than asking first whether an earlier process has begun.
_WORTH_ASKING_BYTES = 16 * 1024 * 1024

GetUpload = Callable[[SegmentManifest], UploadProgress]


class Copy:
    def __init__(
        self, channel: Callable[[], grpc.Channel], get_upload: GetUpload, *, timeout_s: float, stream_timeout_s: float
    ) -> None:
        self._channel = channel
        self._get_upload = get_upload
        self._deadline = time.monotonic() + stream_timeout_s
        self._patience = Patience(timeout_s, until=self._deadline)
        self._broken_uploads = 0
        self._committed: Mapping[SegmentFile, int] = {}

    def run(self, manifest: SegmentManifest, data: LogSegmentData) -> bytes:
        """Returns the custom metadata."""
        done = self._ask(manifest) if manifest.log.size_bytes >= _WORTH_ASKING_BYTES else None
        while done is None:
            upload = Upload(manifest, data, begin_at=self._committed)
            try:
                return self._sent(upload, manifest)
            except TiergateError as failure:
                # Out of range: what was kept has gone, since the upload was ended. Cancelled, though not by us: the
                # server ended a stream into which nothing was sent for a while.
                if not may_pass(failure) and not isinstance(failure, OffsetOutOfRange | Cancelled):
                    raise
                broken = failure
            if upload.sent_chunks:
                self._broken_uploads += not isinstance(broken, Exhausted)  # a limit is no sign that it never will pass
                self._patience.progressed()
            if not self._patience.pause(broken):
                raise broken
            done = self._ask(manifest)
            if done is None and self._broken_uploads >= _MOST_BROKEN_UPLOADS:
                raise broken
        return done

    def _sent(self, upload: Upload, manifest: SegmentManifest) -> bytes:
        try:
            return upload.send(self._channel(), timeout_s=self._deadline - time.monotonic())
        except InvalidField as complaint:
            if complaint.details.get("field", "").startswith("header"):
                raise
            raise SentDataCorrupt(  # the header was made from the same files a moment ago
                f"segment {manifest.metadata.segment_id} changed while it was read ({complaint.message}): copy it again"
            ) from complaint

    def _ask(self, manifest: SegmentManifest) -> bytes | None:
        """The custom metadata of a segment that is complete; else what is kept of it is where sending goes on.

        When the answer does not come, sending begins where it began last time: too early is never wrong.
        """
        try:
            progress = self._get_upload(manifest)
        except TiergateError as failure:
            if not may_pass(failure) and not isinstance(failure, DeadlineExceeded):
                raise
            return None
        if progress.committed_bytes.get(SegmentFile.LOG, 0) > self._committed.get(SegmentFile.LOG, 0):
            self._broken_uploads = 0
        self._committed = progress.committed_bytes
        return progress.custom_metadata
