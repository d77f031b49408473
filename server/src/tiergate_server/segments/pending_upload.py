"""What the store remembers of an upload that is not complete, so that any replica can continue it.

    upload.json = framed JSON: version, kind "upload", started_at_ms, log_handle, manifest (as in `manifest.json`)

It is put before the first byte, names the partial upload of the log (null: a log that is small enough to start over),
and goes when the segment's manifest is there. All sessions of one content share it: who comes second joins the partial
upload of the first and ends the one that he began. It also shows a delete that a copy is under way.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tiergate_client.clock import Clock
from tiergate_client.errors import BackendThrottled, InvalidField, StorageUnavailable
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_server.segments.framed_json import frame, unframe
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.manifest import SegmentManifestV1
from tiergate_server.segments.object_store import (
    ObjectFetcher,
    ObjectNotFound,
    ObjectStore,
    PartialGone,
    PartialUpload,
)

VERSION = 1

# Each round is lost only to somebody who ended or finished the same upload in the same instant.
_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class UploadDescriptorV1:
    """An upload of a content: since when it is under way, and where its log is."""

    manifest: SegmentManifest
    started_at_ms: int
    log_handle: str | None

    def to_bytes(self) -> bytes:
        return frame(
            {
                "version": VERSION,
                "kind": "upload",
                "started_at_ms": self.started_at_ms,
                "log_handle": self.log_handle,
                "manifest": SegmentManifestV1(self.manifest).to_json(),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> UploadDescriptorV1 | None:
        """None for what this release cannot continue."""
        try:
            fields = unframe(data)
            if fields["version"] != VERSION or fields["kind"] != "upload":
                return None
            content = SegmentManifestV1.from_json(fields["manifest"]).content
            return cls(content, fields["started_at_ms"], fields["log_handle"])
        except (KeyError, TypeError, ValueError, AttributeError, InvalidField):
            return None


def read_descriptor(store: ObjectFetcher, key: str) -> UploadDescriptorV1 | None:
    """None: there is none, or none that this release can continue."""
    try:
        return UploadDescriptorV1.from_bytes(store.get(key))
    except ObjectNotFound:
        return None


@dataclass(frozen=True, slots=True)
class JoinedUpload:
    """The log of an upload, ready to take bytes."""

    log: PartialUpload | None
    """None: it starts over with an ordinary upload, or needs none."""
    is_log_stored: bool = False
    """True: the whole log is there under its key already."""


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """One content on its way into a store."""

    manifest: SegmentManifest
    keys: SegmentKeys
    store: ObjectStore

    def join(self, clock: Clock) -> JoinedUpload:
        """Continues the upload that is under way, or begins it."""
        for _ in range(_ROUNDS):
            descriptor = self.read() or self._begin(clock())
            if descriptor is not None and (joined := self._opened(descriptor)) is not None:
                return joined
            if descriptor is not None:
                self.forget()  # it names a partial upload that is gone
        raise StorageUnavailable(
            f"the upload of segment {self.manifest.metadata.segment_id} could not be joined, since others end it all "
            f"the time: try again",
            retry_after_ms=100,
        )

    def committed_log_bytes(self) -> int:
        """How much of the log's beginning is kept."""
        descriptor = self.read()
        joined = None if descriptor is None else self._opened(descriptor)
        if joined is None:
            return 0
        if joined.log is None:
            return self.manifest.log.size_bytes if joined.is_log_stored else 0
        with joined.log as log:
            return log.committed_bytes

    def read(self) -> UploadDescriptorV1 | None:
        return read_descriptor(self.store, self._key)

    def forget(self) -> None:
        """Removes the descriptor, and nothing that it names."""
        self.store.delete(self._key)

    def end(self) -> None:
        """Removes the descriptor and the log's partial upload."""
        descriptor = self.read()
        if descriptor is not None and descriptor.log_handle is not None:
            self.store.end_partial(self._log_key, descriptor.log_handle)
        self.forget()

    def _begin(self, now_ms: int) -> UploadDescriptorV1 | None:
        """None: another session began it in this moment."""
        handle = self.store.begin_partial(self._log_key, size_bytes=self.manifest.log.size_bytes)
        descriptor = UploadDescriptorV1(self.manifest, now_ms, handle)
        try:
            if self.store.put_if_absent(self._key, descriptor.to_bytes()):
                return descriptor
        except (StorageUnavailable, BackendThrottled):
            # Nobody may know of it. If the put has reached the store nevertheless, it names what is gone, and who comes
            # next begins anew.
            if handle is not None:
                with suppress(StorageUnavailable, BackendThrottled):
                    self.store.end_partial(self._log_key, handle)
            raise
        found = self.read()
        is_ours = found is not None and found.log_handle == handle  # the answer to an earlier attempt was lost
        if handle is not None and not is_ours:
            self.store.end_partial(self._log_key, handle)
        if found is None:
            self.forget()  # gone by now, or nothing that this release can continue
        return found

    def _opened(self, descriptor: UploadDescriptorV1) -> JoinedUpload | None:
        """None: what the descriptor names is gone."""
        if descriptor.log_handle is None:
            return JoinedUpload(None)
        manifest = self.manifest
        try:
            log = self.store.open_partial(
                self._log_key,
                descriptor.log_handle,
                size_bytes=manifest.log.size_bytes,
                block_crc32c=manifest.log_block_crc32c,
            )
        except PartialGone:
            return JoinedUpload(None, is_log_stored=True) if self.store.exists(self._log_key) else None
        return JoinedUpload(log)

    @property
    def _key(self) -> str:
        return self.keys.upload(self.manifest.upload_digest)

    @property
    def _log_key(self) -> str:
        return self.keys.file(self.manifest.upload_digest, SegmentFile.LOG)
