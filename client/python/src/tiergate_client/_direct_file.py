"""One file of a segment in the store, opened at any position with a URL that is valid. Bytes are not verified here."""

from __future__ import annotations

from tiergate_client._direct_answer import Body, ObjectMissing, ObjectTooShort, UrlRefused
from tiergate_client._direct_http import Connections
from tiergate_client._direct_resolutions import Resolutions
from tiergate_client.segment_files import SegmentFile, SegmentManifest
from tiergate_client.stored_reads import stored_data_corrupt
from tiergate_client.values import RemoteLogSegmentMetadata


class DirectFile:
    """Raises what the service raises when it is asked where the segment is: SegmentNotFound, NotOffered and others."""

    def __init__(
        self,
        connections: Connections,
        resolutions: Resolutions,
        metadata: RemoteLogSegmentMetadata,
        file: SegmentFile,
    ) -> None:
        self._connections = connections
        self._resolutions = resolutions
        self._metadata = metadata
        self._file = file
        self._resolution = resolutions.of(metadata, file)

    @property
    def manifest(self) -> SegmentManifest:
        return self._resolution.segment.manifest

    def open(self, begin: int, end: int) -> Body:
        """The bytes [begin, end). Raises StoreOutOfReach, SegmentNotFound when it was deleted, StoredDataCorrupt."""
        if not self._resolutions.is_usable(self._resolution):
            self._renew()
        try:
            return self._get(begin, end)
        except (UrlRefused, ObjectMissing):
            # Expired earlier than it was said to (with the credentials that signed it), or the segment was deleted.
            self._renew()
        try:
            return self._get(begin, end)
        except ObjectMissing:
            raise stored_data_corrupt(self.manifest, self._file, begin, "is missing") from None

    def _get(self, begin: int, end: int) -> Body:
        url = self._resolution.segment.urls.get(self._file)
        if url is None:
            raise UrlRefused(f"the service gave no URL for the {self._file.value}: read through the service")
        try:
            return self._connections.get(url, begin=begin, end=end)
        except ObjectTooShort:
            raise stored_data_corrupt(self.manifest, self._file, begin, "is cut short") from None

    def _renew(self) -> None:
        self._resolution = self._resolutions.renewed(self._metadata, self._file)
