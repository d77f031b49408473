"""Where snapshots are kept: each one an object of its own in an object store, the newest that is whole wins.

    <prefix>/<log id>/<time of saving in ms, 15 digits>-<16 hex digits>

Blocks, so it is used from threads. What a snapshot holds is the codec's business.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable, Iterator

from tiergate_client.clock import Clock, system_clock
from tiergate_client.errors import StorageUnavailable
from tiergate_client.ids import LogId
from tiergate_server.metadata import snapshot_codec
from tiergate_server.metadata.snapshot import MetadataSnapshot, SnapshotRefused
from tiergate_server.segments.object_store import ObjectInfo, ObjectNotFound, ObjectStore
from tiergate_server.segments.store_layout import SNAPSHOTS_PREFIX

_logger = logging.getLogger(__name__)

_KEPT = 2  # the newest, and the one before in case the newest turns out to be damaged
_READ_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"\d{15}-[0-9a-f]{16}")


class SnapshotStore:
    """Snapshots of any number of logs; those of one log do not see the others. Several writers may share it."""

    def __init__(self, store: ObjectStore, *, prefix: str = SNAPSHOTS_PREFIX, clock: Clock = system_clock) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock

    def save(self, log_id: LogId, chunks: Iterable[bytes]) -> str:
        """Keeps a snapshot, durably, then removes all but the newest two; the key. Raises StorageUnavailable."""
        # Behind the newest one also when the clock was set back: the order of the keys is the order of saving.
        newest = max((_saved_at_ms(info) for info in self._snapshots(log_id)), default=-1)
        saved_at_ms = max(self._clock(), newest + 1)
        key = f"{self._directory(log_id)}/{saved_at_ms:015}-{secrets.token_hex(8)}"
        with self._store.upload(key) as upload:
            for chunk in chunks:
                upload.write(chunk)
            if not upload.commit():
                raise StorageUnavailable(f"the key {key!r} of a new snapshot was taken: try again")
        self._remove_old(log_id)
        return key

    def newest(self, log_id: LogId, partition_count: int) -> MetadataSnapshot | None:
        """The newest snapshot of this log that can be used, with a warning for each newer one that cannot.

        Raises StorageUnavailable.
        """
        for info in self._newest_first(log_id):
            try:
                return self._read(info, log_id, partition_count)
            except ObjectNotFound:
                continue  # another writer removed it in the meantime, and has left newer ones
            except SnapshotRefused as reason:
                _logger.warning("snapshot %s is not used: %s; trying the one before, or replaying", info.key, reason)
        return None

    def _read(self, info: ObjectInfo, log_id: LogId, partition_count: int) -> MetadataSnapshot:
        content = bytearray()
        with self._store.open_range(info.key, offset=0, length=info.size_bytes) as reader:
            while piece := reader.read(_READ_BYTES):
                content += piece
        snapshot = snapshot_codec.decode(content)
        if snapshot.log_id != log_id:
            raise SnapshotRefused(f"it is of the metadata log {snapshot.log_id}, this is {log_id}")
        if snapshot.partition_count != partition_count:
            raise SnapshotRefused(f"its log had {snapshot.partition_count} partitions, this has {partition_count}")
        return snapshot

    def _remove_old(self, log_id: LogId) -> None:
        try:
            for info in self._newest_first(log_id)[_KEPT:]:
                self._store.delete(info.key)
        except StorageUnavailable as trouble:
            _logger.warning("old snapshots stay until the next one is saved: %s", trouble.message)

    def _newest_first(self, log_id: LogId) -> list[ObjectInfo]:
        return sorted(self._snapshots(log_id), key=lambda info: info.key, reverse=True)

    def _snapshots(self, log_id: LogId) -> Iterator[ObjectInfo]:
        listed = self._store.list(self._directory(log_id))
        return (info for info in listed if _NAME.fullmatch(info.key.removeprefix(self._directory(log_id) + "/")))

    def _directory(self, log_id: LogId) -> str:
        return f"{self._prefix}/{log_id}" if self._prefix else str(log_id)


def _saved_at_ms(info: ObjectInfo) -> int:
    return int(info.key.rpartition("/")[2].partition("-")[0])
