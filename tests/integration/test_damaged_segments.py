"""Whatever happens to the bytes of a broker's segment: what is read is what Kafka has read, or is refused by its place.

What nobody can tell is written down in `support/damaged_reads.py`.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from support.damaged_reads import DamagedRead
from support.known_segments import KnownSegment
from support.record_corpus import RecordCorpus
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.records import AbortedTransaction, TransactionIndex

pytestmark = pytest.mark.timeout(300)  # for the corpus, on a busy machine

TOPICS = ("append-time", "codecs", "compacted", "epochs", "open", "transactions")
SEED = 6


@pytest.fixture(scope="module")
def segments(corpus: RecordCorpus) -> dict[str, list[KnownSegment]]:
    return {topic: known_segments(corpus, topic) for topic in TOPICS}


def known_segments(corpus: RecordCorpus, topic: str) -> list[KnownSegment]:
    directory = PartitionDirectory.open(corpus.records.directory(topic))
    aborted = [entry for index in sorted(directory.path.glob("*.txnindex")) for entry in aborted_in(index)]
    return [
        KnownSegment.of(
            f"{topic}/{local.log.name}",
            local.log.read_bytes(),
            start_offset=local.base_offset,
            end_offset=local.end_offset,
            rows=corpus.records.read_by_kafka(local.log),
            aborted=aborted,
        )
        for local in directory.rolled_segments()
    ]


def aborted_in(index: Path) -> tuple[AbortedTransaction, ...]:
    return TransactionIndex.parse(index.read_bytes()).transactions


def test_damage_is_done_to_every_kind_of_batch(segments: dict[str, list[KnownSegment]]) -> None:
    every = [segment for of_topic in segments.values() for segment in of_topic]
    batches = [batch for segment in every for batch in segment.batches]
    assert {batch.codec for batch in batches} == set(range(5))
    assert any(one.is_aborted(segment.aborted) for segment in every for one in segment.untouched)
    assert any(batch.is_transactional and batch.first_row == batch.stop_row for batch in batches), "markers"
    assert {segment.has_holes for segment in every} == {True, False}
    assert all(DamagedRead.plain(segment, segment.log).check() == "all" for segment in every)


@pytest.mark.parametrize("cases", [500, pytest.param(100_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])])
def test_damaged_segment_is_read_as_kafka_read_it_or_refused(
    segments: dict[str, list[KnownSegment]], cases: int, tmp_path: Path
) -> None:
    ends: Counter[str] = Counter()
    for case in range(cases):
        numbers = random.Random(f"{SEED}, {case}")
        read = DamagedRead.random(numbers.choice(segments[numbers.choice(TOPICS)]), numbers)
        try:
            ends[read.check()] += 1
        except Exception as failure:
            raise AssertionError(
                f"case {case} of seed {SEED}, {read.segment.name}, {read.damage.story}: {failure!r}; again: "
                f"cd tests && ../.venv/bin/python -m support.damaged_reads {read.keep(tmp_path)}"
            ) from failure
    print(dict(ends))
    assert ends["refused"] > cases // 2
    assert ends["all"] > cases // 100
    assert ends["batches are gone"] > cases // 100


@pytest.mark.parametrize("topic", TOPICS)
def test_batch_is_read_with_other_offsets_within_a_hole_only(
    segments: dict[str, list[KnownSegment]], topic: str
) -> None:
    """No checksum covers the base offset, and in a hole nothing contradicts it."""
    ends: Counter[str] = Counter()
    for segment in segments[topic]:
        before, behind = segment.start_offset - 1, [batch.base_offset for batch in segment.batches[1:]]
        for batch, next_base in zip(segment.batches, [*behind, segment.end_offset + 1], strict=True):
            for base in (batch.base_offset - 1, batch.base_offset + 1):
                is_in_hole = before < base and base + batch.last_offset_delta < next_base
                content = bytearray(segment.log)
                struct.pack_into(">q", content, batch.position, base)
                end = DamagedRead.plain(segment, bytes(content)).check_read_split()
                assert end == ("moved in a hole" if is_in_hole else "refused")
                ends[end] += 1
            before = batch.last_offset
    assert ends["refused"]
    assert bool(ends["moved in a hole"]) == (topic == "compacted")


@pytest.mark.parametrize("topic", TOPICS)
def test_other_leader_epoch_changes_no_record(segments: dict[str, list[KnownSegment]], topic: str) -> None:
    for segment in segments[topic]:
        content = bytearray(segment.log)
        for batch in segment.batches:
            struct.pack_into(">i", content, batch.position + 12, 12345)
        assert DamagedRead.plain(segment, bytes(content)).check() == "all"


@pytest.mark.parametrize("topic", TOPICS)
def test_batch_with_the_last_offset_that_a_number_can_have_is_refused(
    segments: dict[str, list[KnownSegment]], topic: str
) -> None:
    """Where a reader ends is exclusive, and a batch behind every end would be passed over unseen."""
    for segment in segments[topic]:
        for batch in segment.batches:
            content = bytearray(segment.log)
            struct.pack_into(">q", content, batch.position, 2**63 - 1 - batch.last_offset_delta)
            assert DamagedRead.plain(segment, bytes(content)).check() == "refused"
