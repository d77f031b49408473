"""Builds the record corpus: writes its topics over several lives of a broker and copies their segments to the tier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from support.corpus_topics import CorpusTopics
from support.kafka_broker import KafkaBroker
from support.kafka_records import KafkaRecords
from support.kafka_topics import KafkaTopics
from support.log_surgery import join_segments, lose_tail
from support.tiering import tier_segments
from tiergate_server.cli.connection import Tiergate

T = TypeVar("T")

_REWRITTEN = ("resegmented", "overlapping", "diverged", "shortened")
_DELETABLE = ("deleted-before", "deleted-between", "deleted-after")


class _Writers:
    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self.submitted: list[Future[Any]] = []

    def submit(self, write: Callable[..., T], *arguments: Any, **options: Any) -> Future[T]:
        future = self._threads.submit(write, *arguments, **options)
        self.submitted.append(future)
        return future


def build_corpus(broker: KafkaBroker, records: KafkaRecords, tiergate: Tiergate) -> dict[str, int]:
    """Returns the last stable offsets as of the tier's end, of those topics where the broker's is another by now."""
    topics = CorpusTopics(records, KafkaTopics(broker))
    stable_offsets = _write_first_life(topics)
    tier_segments(tiergate, records.directory("deleted-between"))
    for name in ("deleted-between", "deleted-before"):
        topics.delete_into_batch(name)
    broker.stop()
    # The second of them becomes a part of a larger one.
    tiered = tier_segments(tiergate, records.directory("overlapping"), limit=2)
    for name in ("resegmented", "diverged", "shortened"):
        tier_segments(tiergate, records.directory(name))
    for name in ("resegmented", "overlapping"):
        join_segments(records.directory(name))
    lose_tail(records.directory("diverged"), segments=2)
    lose_tail(records.directory("shortened"), segments=5)
    broker.start()
    with _at_once() as writers:
        for name in ("epochs", "resegmented", "overlapping", "diverged"):
            writers.submit(topics.write_life, name, end="open" if name == "epochs" else "abort")
        writers.submit(topics.fill_segments, "shortened")
    broker.restart()
    topics.write_life("epochs", end="abort")
    for directory in partition_directories(broker):
        # A broker goes on with the segment that holds the next offset, also where it overlaps with another one.
        first = tiered[-1].end_offset + 1 if directory.name == "overlapping-0" else 0
        tier_segments(tiergate, directory, first=first)
    topics.delete_into_batch("deleted-after")
    return stable_offsets


def partition_directories(broker: KafkaBroker) -> list[Path]:
    """Of the topics that are not the broker's own."""
    found = (path.parent for path in broker.directory.glob("data/*/partition.metadata"))
    return sorted(path for path in found if not path.name.startswith("__"))


def _write_first_life(topics: CorpusTopics) -> dict[str, int]:
    with _at_once() as writers:
        undecided = {
            "undecided-commit": writers.submit(topics.write_undecided, "undecided-commit", "commit"),
            "undecided-abort": writers.submit(topics.write_undecided, "undecided-abort", "abort"),
        }
        writers.submit(topics.write_transactions)
        writers.submit(topics.write_compacted)
        writers.submit(topics.write_open_transactions)
        writers.submit(topics.write_append_time)
        writers.submit(topics.write_codecs)
        writers.submit(topics.write_partitions)
        writers.submit(topics.write_times)
        for name in _DELETABLE:
            writers.submit(topics.write_deletable, name)
        for name in _REWRITTEN:
            writers.submit(topics.write_new, name, lives=2 if name == "shortened" else 1, end="abort")
        writers.submit(topics.write_new, "epochs", lives=1, end="open")
    return {name: offset.result() for name, offset in undecided.items()}


@contextmanager
def _at_once() -> Iterator[_Writers]:
    """Producers mostly wait for the broker, above all those of transactions."""
    with ThreadPoolExecutor(4) as threads:
        writers = _Writers(threads)
        yield writers
    for written in writers.submitted:
        written.result()
