"""Many indexes in few calls: as many questions in one as the server takes, and as many answers as fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from crc32c import crc32c

from tiergate.v1 import storage_pb2 as pb
from tiergate_client.conversions import file_to_proto, metadata_to_proto
from tiergate_client.errors import LimitExceeded, StoredDataCorrupt, TiergateError
from tiergate_client.segment_files import IndexQuestion
from tiergate_client.status import from_status

# The server's default. One that takes fewer says so, and is believed from then on.
_MOST_QUESTIONS = 64
# Well below the smallest message limit, for segments with thousands of epochs.
_MOST_REQUEST_BYTES = 512 * 1024

Answer: TypeAlias = bytes | TiergateError
Call = Callable[[pb.BatchFetchIndexesRequest, IndexQuestion], pb.BatchFetchIndexesResponse]


class IndexBatches:
    """`call` makes one call about the questions of a request, of which it also gets the first."""

    def __init__(self, call: Call, fetch_alone: Callable[[IndexQuestion], bytes]) -> None:
        self._call = call
        self._fetch_alone = fetch_alone
        self._most_questions = _MOST_QUESTIONS

    def fetch(self, questions: Sequence[IndexQuestion]) -> list[Answer]:
        answers: list[Answer] = []
        while len(answers) < len(questions):
            asked = questions[len(answers) :]
            request = self._request(asked)
            try:
                response = self._call(request, asked[0])
            except LimitExceeded as refusal:
                if not self._has_learned_from(refusal):
                    raise
                continue
            answers += self._answers(asked[: len(request.items)], response)
        return answers

    def _request(self, questions: Sequence[IndexQuestion]) -> pb.BatchFetchIndexesRequest:
        """The first of the questions, as many as one call takes."""
        request = pb.BatchFetchIndexesRequest()
        size_bytes = 0
        for question in questions[: self._most_questions]:
            item = pb.IndexQuestion(metadata=metadata_to_proto(question.metadata), file=file_to_proto(question.file))
            size_bytes += item.ByteSize()
            if size_bytes > _MOST_REQUEST_BYTES and request.items:
                break
            request.items.append(item)
        return request

    def _has_learned_from(self, refusal: LimitExceeded) -> bool:
        value = refusal.details.get("value", "")
        if refusal.details.get("limit") != "batch_indexes" or not value.isdecimal():
            return False
        limit, before = int(value), self._most_questions
        self._most_questions = min(max(limit, 1), before)
        return limit < before

    def _answers(self, asked: Sequence[IndexQuestion], response: pb.BatchFetchIndexesResponse) -> Iterator[Answer]:
        if len(response.items) != len(asked):
            raise StoredDataCorrupt(f"{len(asked)} indexes were asked for, but {len(response.items)} arrived")
        for question, item in zip(asked, response.items, strict=True):
            yield self._answer(question, item)

    def _answer(self, question: IndexQuestion, item: pb.IndexAnswer) -> Answer:
        if not item.status.code:
            if crc32c(item.data) == item.crc32c:
                return item.data
            return StoredDataCorrupt(
                f"the {question.file.value} of segment {question.metadata.segment_id} arrived damaged"
            )
        error = from_status(item.status)
        if not isinstance(error, LimitExceeded):
            return error
        try:  # there was no room left in the answer, or a quota is used up for the moment
            return self._fetch_alone(question)
        except TiergateError as failure:
            return failure
