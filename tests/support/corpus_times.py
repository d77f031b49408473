"""Where the broker finds the times of the record corpus; finding them in the tier is left to its users."""

from __future__ import annotations

import random

from support.kafka_records import Row
from support.made_rows import BASE_TIME_MS
from support.record_corpus import RecordCorpus, TieredPartition


def offsets_for_times(
    corpus: RecordCorpus, tiered: TieredPartition, *, isolation: str = "read_uncommitted", at_most: int = 40
) -> dict[int, tuple[int, int, int] | None]:
    """Time -> offset, time and leader epoch of the first record as late in the tier; None when there is none.

    The times are those of about `at_most` records, and others near them.
    """
    times = _asked_times(corpus.consumed(tiered, "read_uncommitted"), at_most)
    answers = corpus.records.offsets_for_times(
        tiered.topic, times, partition=tiered.partition.partition, isolation=isolation
    )
    if tiered.log_start_offset:
        answers = _in_spite_of_deleted_records(corpus, tiered, times, answers)
    found = {
        time: (answer["offset"], answer["timestamp"], answer["leader_epoch"])
        for time, answer in zip(times, answers, strict=True)
        if answer is not None and answer["offset"] < tiered.stop_for(isolation)
    }
    return {time: found.get(time) for time in times}


def _asked_times(rows: list[Row], at_most: int) -> list[int]:
    """Before, on, between and after those of the records; behind most of them are those of control records alone."""
    random_numbers = random.Random(len(rows))
    times = sorted({row["timestamp"] for row in rows})
    chosen = {times[0], times[-1], *random_numbers.sample(times, k=min(at_most, len(times)))}
    near = {max(0, time + distance) for time in chosen for distance in (-1, 0, 1)}
    return sorted(near | {0, 1, BASE_TIME_MS + 10**8, 2**53 + 2, 2**62})


def _in_spite_of_deleted_records(
    corpus: RecordCorpus, tiered: TieredPartition, times: list[int], answers: list[Row | None]
) -> list[Row | None]:
    """The broker looks into one segment only, the first with such a time: nothing, if the record there was deleted."""
    logs = corpus.records.logs(tiered.topic)
    stored = [row for log in logs for row in corpus.records.read_by_kafka(log, with_control=True)]
    kept = [{**row, "leader_epoch": 0} for row in stored if row["offset"] >= tiered.log_start_offset]
    return [
        answer or next((row for row in kept if row["timestamp"] >= time), None)
        for time, answer in zip(times, answers, strict=True)
    ]
