"""The two interfaces that Tiergate is: Kafka's RemoteLogMetadataManager and RemoteStorageManager, in Python.

The client implements them over gRPC, the server's domain over its seams; one contract suite holds for all.
Implementations are safe to use from many threads. Errors are those of `tiergate_client.errors`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from types import TracebackType
from typing import Self

from tiergate_client.errors import TiergateError
from tiergate_client.ids import SegmentId
from tiergate_client.resolved_segment import ResolvedSegment
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import IndexQuestion, SegmentFile, SegmentManifest
from tiergate_client.upload_progress import UploadProgress, UploadSummary
from tiergate_client.values import (
    ConsistencyToken,
    MetadataChange,
    PartitionSummary,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    SegmentQuestion,
    TopicIdPartition,
)
from tiergate_client.verification import VerificationProgress


class RemoteLogMetadata(ABC):
    """Which segment holds which offsets, and where each one stands in its life.

    Reads see every change that this object has acknowledged, and never an older state than one it has shown. Every
    call raises Unavailable while the truth is not known, never an empty answer instead.
    """

    @abstractmethod
    def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Announces a segment in COPY_STARTED; returns when applied.

        The same content again is fine. Raises InvalidField for another state, InvalidTransition when the segment is
        in a later state, SegmentConflict when it is there with other content, CommitStateUnknown when its fate is
        unknown in time.
        """

    @abstractmethod
    def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Moves a segment to another state and replaces its custom metadata; returns when applied.

        What already holds is fine, and so is DELETE_FINISHED of a segment that does not exist. Raises InvalidField
        for COPY_STARTED, SegmentNotFound, InvalidTransition (illegal, or another writer was faster),
        CommitStateUnknown.
        """

    @abstractmethod
    def put_partition_delete(self, delete: RemotePartitionDeleteMetadata) -> None:
        """Takes the deletion of a whole partition a step further; returns when applied.

        What already holds is fine. FINISHED drops everything that is known of the partition, and every later mutation
        of it is refused. Raises InvalidTransition for a step that is not the next one, CommitStateUnknown.
        """

    @abstractmethod
    def get_segment(
        self, segment_id: SegmentId, *, partition: TopicIdPartition | None = None
    ) -> RemoteLogSegmentMetadata:
        """A segment by its id, in any state; without `partition` every partition is searched.

        Raises SegmentNotFound.
        """

    @abstractmethod
    def find_segment(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` in `leader_epoch`."""

    @abstractmethod
    def find_segments(
        self, questions: Sequence[SegmentQuestion]
    ) -> list[RemoteLogSegmentMetadata | TiergateError | None]:
        """Many find_segment in one: the answers in the order of the questions, each also an error of its own."""

    @abstractmethod
    def find_next_segment_with_transaction_index(
        self, partition: TopicIdPartition, *, leader_epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Like find_segment, but passes over segments of the epoch that surely have no aborted transaction."""

    @abstractmethod
    def log_size(self, partition: TopicIdPartition, *, leader_epoch: int) -> int:
        """The bytes of all segments of an epoch, whatever their state."""

    @abstractmethod
    def highest_offset_for_epoch(self, partition: TopicIdPartition, *, leader_epoch: int) -> int | None:
        """The highest offset of the epoch that was ever copied completely, deleted or not."""

    @abstractmethod
    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Segments of any state, ascending by (start offset, segment id); of one epoch, or all."""

    @abstractmethod
    def list_partitions(self, *, topic: str | None = None) -> Iterator[PartitionSummary]:
        """The partitions that the log speaks of, by name, topic id and number.

        Raises TopicNotFound when the log never mentioned `topic`.
        """

    @abstractmethod
    def watch(
        self, *, partition: TopicIdPartition | None = None, after: ConsistencyToken | None = None
    ) -> Iterator[MetadataChange]:
        """Every change after a token, or from now on, as it is applied; of one partition, or of all.

        The first item and those without an event only tell how far there was nothing. It ends when it is closed. Raises
        OffsetOutOfRange when the token is older than what is kept, LimitExceeded when the watcher is too slow.
        """


class RemoteStorage(ABC):
    """The bytes of segments. A segment is readable entirely or not at all."""

    @abstractmethod
    def copy_segment(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        """Stores a segment and returns its custom metadata; when it returns, everything is durable and readable.

        Goes on where an earlier attempt with the same content was broken off. The same id with the same content again
        is fine. Raises SegmentConflict for other content, or when the id was deleted; SentDataCorrupt when the data
        changed while it was read.
        """

    @abstractmethod
    def get_upload(self, manifest: SegmentManifest) -> UploadProgress:
        """How far an upload of exactly this content has come, whoever takes it.

        Raises SegmentConflict for other content, or when the id was deleted or its upload aborted.
        """

    @abstractmethod
    def list_uploads(self, partition: TopicIdPartition) -> Iterator[UploadSummary]:
        """Uploads that are not complete, running or abandoned, by segment id in text form and digest."""

    @abstractmethod
    def abort_upload(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Ends every upload of a segment that is not complete, so that none can complete; their id is spent.

        No upload is fine. True: the segment is complete, and was left alone.
        """

    @abstractmethod
    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        """Bytes of the log from `offset`, at most `length` of them; fewer only at the end. The caller closes it.

        Raises SegmentNotFound, OffsetOutOfRange when `offset` is beyond the end (the end itself is an empty stream),
        InvalidField for a negative offset or a length below 1, StoredDataCorrupt also in mid-stream.
        """

    @abstractmethod
    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        """A whole index. Raises SegmentNotFound, IndexNotFound, StoredDataCorrupt, InvalidField for LOG."""

    @abstractmethod
    def fetch_indexes(self, questions: Sequence[IndexQuestion]) -> list[bytes | TiergateError]:
        """Many fetch_index in one: the answers in the order of the questions, each also an error of its own."""

    @abstractmethod
    def delete_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Removes a segment, complete or half copied; absent is fine. A copy still under way can not complete."""

    @abstractmethod
    def get_manifest(self, metadata: RemoteLogSegmentMetadata) -> SegmentManifest:
        """What is stored of a segment. Raises SegmentNotFound, StoredDataCorrupt."""

    @abstractmethod
    def resolve_segment(
        self, metadata: RemoteLogSegmentMetadata, *, valid_s: int = 0, files: Collection[SegmentFile] = ()
    ) -> ResolvedSegment:
        """URLs that read the segment's files past the service, for so many seconds at most; 0 is the server's choice.

        Those of `files` that it has, or of all its files when none is named. Bytes that come from there are not
        verified: see the manifest. Raises SegmentNotFound, StoredDataCorrupt, NotOffered when the store that holds the
        segment gives no URLs, InvalidField for a negative `valid_s`.
        """

    @abstractmethod
    def verify_segment(self, metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        """Reads all that is stored of a segment again and compares it with the manifest, where it is stored.

        What differs or is missing is told on the way, never raised; a segment of which the last item has come without
        any is whole. It ends when it is closed. Raises SegmentNotFound, also in mid-stream when it is deleted,
        StoredDataCorrupt when the manifest itself is damaged, Unavailable when the store cannot be read.
        """


class SegmentStream:
    """Verified bytes of a segment, piece by piece. Close it, or use it as a context, when you stop before its end."""

    def __init__(self, pieces: Iterator[bytes | memoryview], close: Callable[[], None]) -> None:
        self._pieces = pieces
        self._close = close
        self._rest = memoryview(b"")

    def __iter__(self) -> Iterator[bytes | memoryview]:
        while (piece := self.next_piece()) is not None:
            yield piece
            del piece  # or what it is a view of could not be filled again

    def next_piece(self) -> bytes | memoryview | None:
        """None at the end."""
        if not self._rest:
            return next(self._pieces, None)
        rest, self._rest = self._rest, memoryview(b"")
        return rest

    def read(self) -> bytes:
        """Everything that is left, in memory."""
        return b"".join(self)

    def readinto(self, buffer: memoryview) -> int:
        """Puts what comes next into memory of the caller's; how many bytes that were, 0 at the end.

        Behind an error nothing more comes, and what the buffer holds is not to be used.
        """
        piece = self.next_piece()
        while piece is not None and not len(piece):
            piece = self.next_piece()
        if piece is None:
            return 0
        content = memoryview(piece).cast("B")
        count = min(len(content), len(buffer))
        buffer[:count] = content[:count]
        if count < len(content):
            self._rest = content[count:]
        return count

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
