"""RemoteStorage whose logs, and indexes asked for one by one, come straight from the store.

Everything else goes through the service, also indexes asked for in a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tiergate_client._channels import Channels
from tiergate_client._direct_answer import StoreOutOfReach
from tiergate_client._direct_detours import Detours
from tiergate_client._direct_file import DirectFile
from tiergate_client._direct_http import Connections
from tiergate_client._direct_index import read_index
from tiergate_client._direct_log import DirectLog
from tiergate_client._direct_reader import DirectReader
from tiergate_client._direct_resolutions import Resolutions
from tiergate_client._direct_stream import DirectStream, RestOfLog
from tiergate_client._patience import Patience
from tiergate_client._storage import GrpcStorage
from tiergate_client.errors import NotOffered, TiergateError, Unavailable
from tiergate_client.interfaces import SegmentStream
from tiergate_client.segment_files import SegmentFile
from tiergate_client.stored_reads import require_index, require_range
from tiergate_client.values import RemoteLogSegmentMetadata

_CONNECT_TIMEOUT_S = 5.0
_READ_TIMEOUT_S = 20.0
_PATIENCE_BEFORE_A_DETOUR_S = 0.5
"""Enough for a second and a third attempt, unless the first one took its time already."""


class DirectStorage(GrpcStorage):
    """With `falls_back`, what the store does not give is read through the service, from where it is missing on."""

    def __init__(
        self,
        channels: Channels,
        *,
        target: Callable[[], str],
        timeout_s: float,
        stream_timeout_s: float,
        falls_back: bool,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(channels, target=target, timeout_s=timeout_s, stream_timeout_s=stream_timeout_s)
        self._falls_back = falls_back
        self._patience_s = min(_PATIENCE_BEFORE_A_DETOUR_S, timeout_s) if falls_back else timeout_s
        self._resolutions = Resolutions(self.resolve_segment, monotonic_s=monotonic_s)
        self._detours = Detours(monotonic_s=monotonic_s)
        self._connections = Connections(
            connect_timeout_s=min(_CONNECT_TIMEOUT_S, timeout_s), read_timeout_s=min(_READ_TIMEOUT_S, timeout_s)
        )

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        require_range(offset, length)
        through_the_service = partial(super().fetch_segment, metadata)
        if self._detours.holds(metadata.segment_id):
            return through_the_service(offset=offset, length=length)
        try:
            log = DirectLog(self._file(metadata, SegmentFile.LOG), self._reader, offset=offset, length=length)
        except TiergateError as trouble:
            self._require_detour(metadata, trouble)
            return through_the_service(offset=offset, length=length)
        if not self._falls_back:
            return DirectStream(log)
        return DirectStream(RestOfLog(log, through_the_service, partial(self._require_detour, metadata)))

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        require_index(file)
        if not self._detours.holds(metadata.segment_id):
            try:
                return read_index(self._file(metadata, file), file, self._reader)
            except TiergateError as trouble:
                self._require_detour(metadata, trouble)
        return super().fetch_index(metadata, file)

    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._resolutions.forget(metadata.segment_id)
        super().delete_segment(metadata)
        self._resolutions.forget(metadata.segment_id)  # what another thread asked for meanwhile

    def close(self) -> None:
        self._connections.close()

    def _file(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> DirectFile:
        """Where the service is away, one who does not read through it waits as the readers of its streams do."""
        patience = Patience(self._patience_s)
        while True:
            try:
                return DirectFile(self._connections, self._resolutions, metadata, file)
            except Unavailable as failure:
                if self._falls_back or not patience.pause(failure):
                    raise

    def _reader(self, file: DirectFile, begin: int, end: int) -> DirectReader:
        return DirectReader(
            file,
            begin=begin,
            end=end,
            patience_s=self._patience_s,
            deadline_s=time.monotonic() + self._stream_timeout_s,
        )

    def _require_detour(self, metadata: RemoteLogSegmentMetadata, trouble: TiergateError) -> None:
        """Returns when the service is to be asked instead; raises the trouble otherwise."""
        if not self._falls_back or not isinstance(trouble, NotOffered | Unavailable):
            raise trouble
        if isinstance(trouble, NotOffered | StoreOutOfReach):  # and not the service itself, for which it pays to wait
            self._detours.begin(metadata.segment_id, trouble)
