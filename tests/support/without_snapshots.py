"""A segment plane whose segments were all stored without a producer snapshot; everything else is another one's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tiergate_client.errors import IndexNotFound, TiergateError
from tiergate_client.interfaces import RemoteStorage, SegmentStream
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata


class WithoutSnapshots:
    """As far as readers use it. `missed` counts the snapshots that were asked for."""

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self.missed = 0

    @property
    def storage(self) -> RemoteStorage:
        return cast("RemoteStorage", self)

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        return self._storage.fetch_segment(metadata, offset=offset, length=length)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        (answer,) = self.fetch_indexes([IndexQuestion(metadata, file)])
        if isinstance(answer, TiergateError):
            raise answer
        return answer

    def fetch_indexes(self, questions: Sequence[IndexQuestion]) -> list[bytes | TiergateError]:
        answers = self._storage.fetch_indexes(questions)
        for number, question in enumerate(questions):
            if question.file is SegmentFile.PRODUCER_SNAPSHOT:
                self.missed += 1
                answers[number] = IndexNotFound(f"segment {question.metadata.segment_id} has no producer snapshot")
        return answers
