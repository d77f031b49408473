"""Copies of segments behind the two interfaces, in memory, as far as readers use them; every question is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from support.replicated_logs import CopiedSegment
from tiergate_client.errors import IndexNotFound, SegmentNotFound, TiergateError
from tiergate_client.ids import SegmentId
from tiergate_client.interfaces import RemoteLogMetadata, RemoteStorage, SegmentStream
from tiergate_client.records.remembered_scans import REMEMBERED_SCANS
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState, TopicIdPartition


class TierInMemory:
    """Holds copies; some can be lost, and files can fail or be replaced."""

    def __init__(self, copies: Iterable[CopiedSegment]) -> None:
        REMEMBERED_SCANS.forget()  # random numbers of the same seed give other segments the same ids
        self.copies = {copy.metadata.segment_id: copy for copy in copies}
        self.files = {id_: dict(copy.files) for id_, copy in self.copies.items()}
        self.states = dict.fromkeys(self.copies, SegmentState.COPY_FINISHED)
        self.failing: dict[tuple[SegmentId, SegmentFile], TiergateError] = {}
        self.asked: list[tuple[SegmentId, SegmentFile]] = []
        self.calls = 0

    @property
    def metadata(self) -> RemoteLogMetadata:
        return cast(RemoteLogMetadata, self)

    @property
    def storage(self) -> RemoteStorage:
        return cast(RemoteStorage, self)

    @property
    def finished(self) -> list[CopiedSegment]:
        return [copy for id_, copy in self.copies.items() if self.states[id_] is SegmentState.COPY_FINISHED]

    def asked_for(self, file: SegmentFile) -> set[SegmentId]:
        return {id_ for id_, asked in self.asked if asked is file}

    def list_segments(
        self, partition: TopicIdPartition, *, leader_epoch: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        assert leader_epoch is None
        found = [replace(copy.metadata, state=self.states[id_]) for id_, copy in self.copies.items()]
        found = [one for one in found if one.partition == partition]
        return iter(sorted(found, key=lambda one: (one.start_offset, one.segment_id)))

    def fetch_segment(
        self, metadata: RemoteLogSegmentMetadata, *, offset: int = 0, length: int | None = None
    ) -> SegmentStream:
        self.calls += 1
        content = self._file(metadata, SegmentFile.LOG)
        assert 0 <= offset <= len(content)
        assert length is None or length > 0
        stop = len(content) if length is None else offset + length
        return SegmentStream(iter([content[offset:stop]]), lambda: None)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        self.calls += 1
        return self._file(metadata, file)

    def fetch_indexes(self, questions: Sequence[IndexQuestion]) -> list[bytes | TiergateError]:
        self.calls += bool(questions)
        answers: list[bytes | TiergateError] = []
        for question in questions:
            try:
                answers.append(self._file(question.metadata, question.file))
            except TiergateError as error:
                answers.append(error)
        return answers

    def _file(self, metadata: RemoteLogSegmentMetadata, file: SegmentFile) -> bytes:
        segment_id = metadata.segment_id
        self.asked.append((segment_id, file))
        if (segment_id, file) in self.failing:
            raise self.failing[segment_id, file]
        if segment_id not in self.files:
            raise SegmentNotFound(f"segment {segment_id} is not there")
        if file not in self.files[segment_id]:
            raise IndexNotFound(f"segment {segment_id} has no {file.value}")
        return self.files[segment_id][file]
