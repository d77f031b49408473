"""What the topics of the record corpus hold: each is written to show one part of Kafka's behaviour, in many segments.

Reading them, and taking them to the tier, is not done here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

from support.kafka_records import End, KafkaRecords, Row
from support.kafka_topics import KafkaTopics
from support.made_rows import BASE_TIME_MS, made_rows, plain_row
from support.waiting import wait_until
from tiergate_client.records import BatchHeader, scan_batches

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LAST_TIME_MS: Final = 2**53 + 1

# The least that is allowed without "internal." is a mebibyte.
SMALL_SEGMENTS: Final = {"internal.segment.bytes": "16384", "index.interval.bytes": "512"}
_COMPACTION = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "86400000"}
# A partition that was just made may refuse the first of several batches under way and take the second. An idempotent
# producer then repeats the first in vain, for minutes.
_ONE_UNDER_WAY = {"max.in.flight.requests.per.connection": "1"}
_JAVA = {**_ONE_UNDER_WAY, "batch.size": "2500", "linger.ms": "20"}
_LIBRDKAFKA = {**_ONE_UNDER_WAY, "batch.num.messages": "7", "batch.size": "4000"}
# Transactions that are left open are to stay so: the broker must allow it.
TRANSACTION_TIMEOUT_MS: Final = str(24 * 3600 * 1000)
_PATIENT = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}


class CorpusTopics:
    """Writes the topics of one broker."""

    def __init__(self, records: KafkaRecords, topics: KafkaTopics) -> None:
        self._records = records
        self._topics = topics
        self._random = random.Random(20)

    def create(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        self._topics.create(name, partitions=partitions, config={**SMALL_SEGMENTS, **(config or {})})
        return name

    def java(
        self, topic: str, rows: list[Row], *, codec: str = "none", end: End = "none", transaction: str = ""
    ) -> None:
        config = {**_JAVA, "compression.type": codec, **_transactional(transaction)}
        self._records.produce_with_java(topic, rows, end=end, config=config)

    def librdkafka(
        self, topic: str, rows: list[Row], *, codec: str = "none", end: End = "none", transaction: str = ""
    ) -> None:
        config = {**_LIBRDKAFKA, "compression.type": codec, **_transactional(transaction)}
        self._records.produce_with_librdkafka(topic, rows, end=end, config=config)

    def fill_segments(self, topic: str, *, segments: int = 2) -> None:
        """Plain records that no codec makes smaller, enough to roll so many segments. Each has a key of its own."""
        rows = (
            plain_row(self._random.randbytes(800), key=self._random.randbytes(8), timestamp_ms=self._time())
            for _ in range(22 * segments)
        )
        self.librdkafka(topic, list(rows))

    def write_codecs(self) -> None:
        """Every codec of both producers, null and empty keys and values, headers, times out of order."""
        topic = self.create("codecs")
        for codec in CODECS:
            for write in (self.java, self.librdkafka):
                write(topic, made_rows(60), codec=codec)
        self.fill_segments(topic)

    def write_partitions(self) -> None:
        """More than one partition; the last has too little for a rolled segment."""
        topic = self.create("partitions", partitions=4)
        for write, codec in ((self.java, "lz4"), (self.librdkafka, "none")):
            rows = made_rows(240)
            write(topic, [{**row, "partition": number % 3} for number, row in enumerate(rows)], codec=codec)
        self.java(topic, [plain_row(b"alone", partition=3)])

    def write_times(self) -> None:
        """Equal times in a row, falling ones, the smallest and the largest."""
        topic = self.create("times", config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        rising = [BASE_TIME_MS + 10 * number for number in range(60)]
        equal = [BASE_TIME_MS + 2000] * 60
        falling = [BASE_TIME_MS + 5000 - 7 * number for number in range(60)]
        odd = [0, BASE_TIME_MS + 1, LAST_TIME_MS - 1, 1, LAST_TIME_MS, LAST_TIME_MS - 1, LAST_TIME_MS, BASE_TIME_MS]
        later = [BASE_TIME_MS + 6000 + 3 * (number // 5) for number in range(60)]
        for write in (self.java, self.librdkafka):
            for times in (rising, equal, falling, later):
                write(topic, [plain_row(self._random.randbytes(300), timestamp_ms=time) for time in times])
        self.java(topic, [plain_row(b"odd", timestamp_ms=time) for time in odd])
        self.fill_segments(topic)

    def write_append_time(self) -> None:
        topic = self.create("append-time", config={"message.timestamp.type": "LogAppendTime"})
        for codec in CODECS:
            self.java(topic, made_rows(40), codec=codec)
        self.librdkafka(topic, made_rows(40), end="abort", transaction="append-time")
        self.fill_segments(topic)

    def write_transactions(self) -> None:
        """Committed, aborted, interleaved; one abort marker stands two segments and more behind its data."""
        topic = self.create("transactions")
        writers = (("java", self.java), ("librdkafka", self.librdkafka))
        for name, write in writers:
            for end in ("commit", "abort", "abort", "commit"):
                write(topic, made_rows(12), end=end, transaction=name)
            write(topic, made_rows(10))
        for _, write in writers:
            write(topic, made_rows(9), end="open", transaction="far")
            self.fill_segments(topic, segments=3)
            write(topic, [], end="abort", transaction="far")
            self.fill_segments(topic)
        for _, write in writers:
            for _ in range(3):
                write(topic, made_rows(5), end="open", transaction="one")
                self.java(topic, made_rows(5))
                write(topic, made_rows(5), end="open", transaction="two")
                self.librdkafka(topic, made_rows(5))
            write(topic, made_rows(2), end="abort", transaction="one")
            write(topic, made_rows(2), end="commit", transaction="two")
        self.fill_segments(topic)

    def write_open_transactions(self) -> None:
        """One is open when the log ends, and so is a later one; between them another was aborted."""
        topic = self.create("open")
        self.java(topic, made_rows(30))
        self.librdkafka(topic, made_rows(10), end="abort", transaction="before-open")
        self.fill_segments(topic, segments=1)
        self.java(topic, made_rows(10), end="open", transaction="first-open")
        self.librdkafka(topic, made_rows(10), end="abort", transaction="beside-open")
        self.fill_segments(topic)
        self.librdkafka(topic, made_rows(10), end="open", transaction="second-open")
        self.fill_segments(topic)

    def write_undecided(self, topic: str, end: End) -> int:
        """A transaction that ends in the active segment only; returns the last stable offset of before."""
        self.create(topic)
        self.java(topic, made_rows(40))
        self.java(topic, made_rows(10), end="open", transaction=topic)
        self.fill_segments(topic)
        _, stable_offset = self._records.offset_bounds(topic, isolation="read_committed")
        self.java(topic, [], end=end, transaction=topic)
        return stable_offset

    def write_compacted(self) -> None:
        """Compaction has left holes, empty batches and delete horizons; more is not to come."""
        topic = self.create("compacted", config=_COMPACTION)
        for codec in CODECS:
            rows = [{**row, "key": row["key"] or b"one"} for row in made_rows(60, keys=15)]
            self.java(topic, rows, codec=codec)
            self.java(topic, _every_second_is_kept(codec), codec=codec)
            self.librdkafka(topic, rows[:20], end="abort", transaction="compacted", codec=codec)
            self.librdkafka(topic, rows[20:], end="commit", transaction="compacted", codec=codec)
        self._fill_keyed(topic)
        wait_until(lambda: _is_cleaned(self._records, topic), timeout_s=60)
        self._topics.configure(topic, {"cleanup.policy": "delete"})
        self.fill_segments(topic)

    def write_deletable(self, topic: str) -> None:
        self.create(topic)
        self.java(topic, made_rows(80))
        self.librdkafka(topic, made_rows(30), end="abort", transaction=topic)
        self.librdkafka(topic, made_rows(40))
        self.fill_segments(topic)

    def delete_into_batch(self, topic: str) -> None:
        """The log start is then inside a batch of a middle segment, and of an aborted transaction."""
        headers = [header for log in self._records.logs(topic) for header in scan_batches(log.read_bytes())]
        batch = next(one for one in headers if one.is_transactional and one.last_offset - one.base_offset >= 2)
        self._topics.delete_records(topic, partition=0, before=batch.base_offset + 1)

    def write_new(self, topic: str, *, lives: int, end: End) -> None:
        self.create(topic)
        for _ in range(lives):
            self.write_life(topic, end=end)

    def write_life(self, topic: str, *, end: End) -> None:
        """Once per life of the broker, or more often; a transaction that is left open goes on in the next one."""
        self.java(topic, made_rows(40), codec="snappy")
        self.librdkafka(topic, made_rows(15), end="abort", transaction=f"{topic}-short")
        self.java(topic, made_rows(10), end=end, transaction=f"{topic}-long")
        self.fill_segments(topic)

    def _fill_keyed(self, topic: str) -> None:
        self.java(topic, [plain_row(self._random.randbytes(800), key=b"last") for _ in range(44)])

    def _time(self) -> int:
        return BASE_TIME_MS + self._random.randrange(10**6)


def _transactional(transaction: str) -> dict[str, str]:
    return {**_PATIENT, "transactional.id": transaction} if transaction else {}


def _every_second_is_kept(codec: str) -> list[Row]:
    """However often the cleaner passes: a batch of these is left with holes, and with records."""
    keys = chain.from_iterable((b"kept-%s-%d" % (codec.encode(), number), b"replaced") for number in range(10))
    return [plain_row(b"row", key=key) for key in keys]


def _is_cleaned(records: KafkaRecords, topic: str) -> bool:
    headers = list(chain.from_iterable(rolled_headers(records.logs(topic))))
    return (
        any(0 < header.record_count <= header.last_offset - header.base_offset for header in headers)
        and any(header.record_count == 0 for header in headers)
        and any(header.delete_horizon_ms is not None for header in headers)
        and any(behind.base_offset > before.last_offset + 1 for before, behind in pairwise(headers))
    )


def rolled_headers(logs: list[Path]) -> Iterator[list[BatchHeader]]:
    """Of all segments but the active one; files that cleaning takes away meanwhile are left out."""
    for log in logs[:-1]:
        with suppress(FileNotFoundError):
            yield list(scan_batches(log.read_bytes()))
