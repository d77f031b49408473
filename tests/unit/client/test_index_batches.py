"""How the client splits its questions, and what it makes of answers that are not what was asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from crc32c import crc32c

from support.segments import make_metadata
from tiergate.v1 import storage_pb2 as pb
from tiergate_client._index_batches import IndexBatches
from tiergate_client.errors import BackendThrottled, IndexNotFound, LimitExceeded, StoredDataCorrupt, TiergateError
from tiergate_client.segment_files import IndexQuestion, SegmentFile
from tiergate_client.status import to_status

METADATA = make_metadata()
QUESTION = IndexQuestion(METADATA, SegmentFile.OFFSET_INDEX)


def answer(content: bytes | TiergateError) -> pb.IndexAnswer:
    if isinstance(content, TiergateError):
        return pb.IndexAnswer(status=to_status(content))
    return pb.IndexAnswer(crc32c=crc32c(content), data=content)


class Server:
    """Answers each item as it is told, and refuses more than its limit."""

    def __init__(self, answer_item: Callable[[], pb.IndexAnswer], *, limit: int = 64) -> None:
        self._answer_item = answer_item
        self._limit = limit
        self.asked: list[int] = []

    def call(self, request: pb.BatchFetchIndexesRequest, first: IndexQuestion) -> pb.BatchFetchIndexesResponse:
        assert first == QUESTION or first.metadata != METADATA
        self.asked.append(len(request.items))
        assert request.ByteSize() < 1024 * 1024
        if len(request.items) > self._limit:
            raise LimitExceeded.of("batch_indexes", self._limit, "too many")
        return pb.BatchFetchIndexesResponse(items=[self._answer_item() for _ in request.items])


def fetch_alone(_: IndexQuestion) -> bytes:
    return b"alone"


def test_limit_of_the_server_is_learned_once() -> None:
    server = Server(lambda: answer(b"index"), limit=5)
    batches = IndexBatches(server.call, fetch_alone)
    assert batches.fetch([QUESTION] * 12) == [b"index"] * 12
    assert batches.fetch([QUESTION] * 6) == [b"index"] * 6
    assert server.asked == [12, 5, 5, 2, 5, 1]


def test_more_questions_than_a_server_takes_by_default_are_split() -> None:
    server = Server(lambda: answer(b"index"))
    assert len(IndexBatches(server.call, fetch_alone).fetch([QUESTION] * 130)) == 130
    assert server.asked == [64, 64, 2]


def test_questions_with_thousands_of_epochs_are_split_by_size() -> None:
    epochs = {epoch: 100 + epoch for epoch in range(20_000)}
    large = IndexQuestion(make_metadata(epochs=epochs, end_offset=10**6), SegmentFile.OFFSET_INDEX)
    server = Server(lambda: answer(b"index"))
    assert len(IndexBatches(server.call, fetch_alone).fetch([large] * 10)) == 10
    assert len(server.asked) > 1


@pytest.mark.parametrize("refusal", [LimitExceeded("other", details={"limit": "concurrent_calls", "value": "9"})])
def test_other_limits_are_raised(refusal: LimitExceeded) -> None:
    def refuse(_request: pb.BatchFetchIndexesRequest, _first: IndexQuestion) -> pb.BatchFetchIndexesResponse:
        raise refusal

    with pytest.raises(LimitExceeded, match="other"):
        IndexBatches(refuse, fetch_alone).fetch([QUESTION])


def test_limit_that_is_not_smaller_than_what_was_asked_for_is_raised_instead_of_asking_for_ever() -> None:
    def refuse(_request: pb.BatchFetchIndexesRequest, _first: IndexQuestion) -> pb.BatchFetchIndexesResponse:
        raise LimitExceeded.of("batch_indexes", 1, "even one is too many")

    with pytest.raises(LimitExceeded, match="even one"):
        IndexBatches(refuse, fetch_alone).fetch([QUESTION])


def test_item_over_a_limit_is_fetched_alone_and_other_errors_are_answers() -> None:
    contents = iter(
        [LimitExceeded.of("message_bytes", 1, "too large"), IndexNotFound("none"), BackendThrottled("wait")]
    )
    batches = IndexBatches(Server(lambda: answer(next(contents))).call, fetch_alone)
    alone, absent, throttled = batches.fetch([QUESTION] * 3)
    assert alone == b"alone"
    assert isinstance(absent, IndexNotFound)
    assert isinstance(throttled, BackendThrottled)


def test_item_that_arrives_damaged_is_an_error_of_its_own() -> None:
    damaged = pb.IndexAnswer(crc32c=crc32c(b"index"), data=b"inedx")
    items = iter([damaged, answer(b"index")])
    first, second = IndexBatches(Server(lambda: next(items)).call, fetch_alone).fetch([QUESTION] * 2)
    assert isinstance(first, StoredDataCorrupt)
    assert second == b"index"


def test_answer_of_another_length_is_refused() -> None:
    def call(_request: pb.BatchFetchIndexesRequest, _first: IndexQuestion) -> pb.BatchFetchIndexesResponse:
        return pb.BatchFetchIndexesResponse(items=[answer(b"index")])

    with pytest.raises(StoredDataCorrupt, match="2 indexes were asked for, but 1 arrived"):
        IndexBatches(call, fetch_alone).fetch([QUESTION] * 2)
