"""The record corpus holds what it is for: a comparison over anything less would say nothing."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest

from support.corpus_topics import CODECS, rolled_headers
from support.record_corpus import CORPUS_TOPICS, RecordCorpus
from tiergate_client.records import BatchHeader, TransactionIndex
from tiergate_client.values import RemoteLogSegmentMetadata

pytestmark = pytest.mark.timeout(300)  # for the corpus, on a busy machine


def headers_of(corpus: RecordCorpus, topic: str) -> list[BatchHeader]:
    return list(chain.from_iterable(rolled_headers(corpus.records.logs(topic))))


def segments_of(corpus: RecordCorpus, topic: str) -> list[RemoteLogSegmentMetadata]:
    one = corpus.of(topic)
    return list(corpus.tiergate.metadata.list_segments(one.partition))


def test_every_topic_has_several_segments_in_the_tier(corpus: RecordCorpus) -> None:
    assert {one.topic for one in corpus.partitions} == set(CORPUS_TOPICS)
    assert all(len(segments_of(corpus, topic)) >= 3 for topic in CORPUS_TOPICS if topic != "partitions")
    assert len(corpus.of_topic("partitions")) == 3


def test_every_codec_and_null_and_empty_content_is_there(corpus: RecordCorpus) -> None:
    assert {header.codec.name.lower() for header in headers_of(corpus, "codecs")} == set(CODECS)
    rows = corpus.consumed(corpus.of("codecs"), "read_uncommitted")
    for column in ("key", "value"):
        assert {None, b""} < {row[column] for row in rows}
    assert {None, b""} < {header["value"] for row in rows for header in row["headers"]}


def test_compaction_left_holes_empty_batches_and_delete_horizons(corpus: RecordCorpus) -> None:
    headers = headers_of(corpus, "compacted")
    assert any(0 < header.record_count <= header.last_offset - header.base_offset for header in headers)
    assert any(header.record_count == 0 for header in headers)
    assert any(header.delete_horizon_ms is not None for header in headers)
    assert any(behind.base_offset > before.last_offset + 1 for before, behind in pairwise(headers))


def test_abort_marker_is_two_segments_behind_its_data_and_past_one_without_index(corpus: RecordCorpus) -> None:
    logs = corpus.records.logs("transactions")[:-1]
    bases = [int(log.stem) for log in logs]
    indexes = {log: log.with_suffix(".txnindex") for log in logs}
    distances = [
        number - max(place for place, base in enumerate(bases) if base <= entry.first_offset)
        for number, log in enumerate(logs)
        if indexes[log].exists() and not indexes[logs[number - 1]].exists()
        for entry in TransactionIndex.parse(indexes[log].read_bytes()).transactions
    ]
    assert max(distances) >= 2


def test_transaction_spans_leader_epochs_that_skip_numbers(corpus: RecordCorpus) -> None:
    epochs = sorted({header.leader_epoch for header in headers_of(corpus, "epochs")})
    assert len(epochs) >= 3
    assert epochs != list(range(epochs[0], epochs[-1] + 1))
    by_producer: dict[int, set[int]] = {}
    for header in headers_of(corpus, "epochs"):
        if header.is_transactional:
            by_producer.setdefault(header.producer_id, set()).add(header.leader_epoch)
    assert any(len(spanned) >= 3 for spanned in by_producer.values())


def test_log_starts_inside_a_batch_where_records_were_deleted(corpus: RecordCorpus) -> None:
    for topic in ("deleted-before", "deleted-between", "deleted-after"):
        one = corpus.of(topic)
        assert any(
            header.base_offset < one.log_start_offset <= header.last_offset for header in headers_of(corpus, topic)
        )


def test_tier_holds_what_the_broker_lost(corpus: RecordCorpus) -> None:
    shortened = corpus.of("shortened")
    assert max(segment.end_offset for segment in segments_of(corpus, "shortened")) >= shortened.stop_offset
    epochs = [header.leader_epoch for header in headers_of(corpus, "diverged")]
    newer = next(header for header in headers_of(corpus, "diverged") if header.leader_epoch > epochs[0])
    older = [one for one in segments_of(corpus, "diverged") if one.segment_leader_epochs.entries[-1][0] == epochs[0]]
    assert max(segment.end_offset for segment in older) > newer.base_offset


def test_segments_overlap_that_were_cut_in_different_ways(corpus: RecordCorpus) -> None:
    for topic in ("resegmented", "overlapping"):
        segments = segments_of(corpus, topic)
        assert any(
            before.start_offset < behind.start_offset <= before.end_offset < behind.end_offset
            or (before.start_offset == behind.start_offset and before.end_offset != behind.end_offset)
            for before, behind in pairwise(segments)
        )
