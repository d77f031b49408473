"""Reads a Kafka partition directory: which segments are rolled, and everything a copy of one needs.

The directory is only read. Files that are not part of a rolled segment are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId
from tiergate_client.local_log import names, partition_metadata
from tiergate_client.local_log.local_segment import LocalSegment
from tiergate_client.local_log.log_scan import RESTORE, CorruptLog, scan_log
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.values import TopicIdPartition

_ENTRY_BYTES = {names.OFFSET_INDEX: 8, names.TIME_INDEX: 12, names.TXN_INDEX: 34}


class UnreadablePartitionDirectory(Exception):
    """A directory cannot be read as a Kafka partition; the message names the file, the fact and the way out."""


class NoPartitionDirectory(UnreadablePartitionDirectory):
    """There is no such directory."""


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A partition on a broker's disk. The segment with the highest base offset is the active one."""

    path: Path
    partition: TopicIdPartition
    leader_epochs: LeaderEpochs
    base_offsets: tuple[int, ...]

    @classmethod
    def open(
        cls, path: Path, *, topic_id: TopicId | None = None, topic: str | None = None, partition: int | None = None
    ) -> PartitionDirectory:
        """What is given goes before what the directory says."""
        base_offsets = _base_offsets(path)
        topic, partition = _topic_and_partition(path, topic, partition)
        epochs = _leader_epochs(path)
        try:
            identity = TopicIdPartition(topic_id or _topic_id(path), partition, topic)
        except InvalidField as error:
            raise UnreadablePartitionDirectory(f"{path}: {error.message}") from None
        return cls(path, identity, epochs, base_offsets)

    @property
    def rolled_bounds(self) -> tuple[tuple[int, int], ...]:
        """First and last offset of each rolled segment that can be copied.

        Segments that lie wholly below the first leader epoch are not among them: records were deleted up to there,
        and a broker does not copy them either.
        """
        first_offset = self.leader_epochs.entries[0][1]
        bounds = ((base, following - 1) for base, following in pairwise(self.base_offsets))
        return tuple((base, end) for base, end in bounds if end >= first_offset)

    @property
    def rolled_size_bytes(self) -> int:
        """The size of the logs that `rolled_segments` will yield."""
        return sum(self._log(base).stat().st_size for base, _ in self.rolled_bounds)

    def rolled_segments(self) -> Iterator[LocalSegment]:
        """The rolled segments by ascending offset; each is read when it is its turn."""
        for base_offset, end_offset in self.rolled_bounds:
            yield self._read(base_offset, end_offset)

    def _read(self, base_offset: int, end_offset: int) -> LocalSegment:
        log = self._log(base_offset)
        offset_index = self._index(base_offset, names.OFFSET_INDEX)
        time_index = self._index(base_offset, names.TIME_INDEX)
        if offset_index is None or time_index is None:
            suffix = names.OFFSET_INDEX if offset_index is None else names.TIME_INDEX
            missing = self.path / names.file_name(base_offset, suffix)
            raise UnreadablePartitionDirectory(f"{missing} is missing; a broker rebuilds it when it starts")
        txn_index = self._index(base_offset, names.TXN_INDEX)
        snapshot = self.path / names.file_name(end_offset + 1, names.PRODUCER_SNAPSHOT)
        return LocalSegment(
            partition=self.partition,
            log=log,
            base_offset=base_offset,
            end_offset=end_offset,
            leader_epochs=self.leader_epochs.within(base_offset, end_offset),
            size_bytes=log.stat().st_size,
            max_timestamp_ms=_max_timestamp_ms(log, base_offset, end_offset),
            txn_index_empty=txn_index is None or txn_index.stat().st_size == 0,
            data=LogSegmentData(
                log=log,
                offset_index=offset_index,
                time_index=time_index,
                leader_epoch=self.leader_epochs.up_to(end_offset).to_checkpoint(),
                producer_snapshot=snapshot if snapshot.is_file() else None,
                txn_index=txn_index,
            ),
        )

    def _log(self, base_offset: int) -> Path:
        return self.path / names.file_name(base_offset, names.LOG)

    def _index(self, base_offset: int, suffix: str) -> Path | None:
        path = self.path / names.file_name(base_offset, suffix)
        if not path.is_file():
            return None
        size, entry_bytes = path.stat().st_size, _ENTRY_BYTES[suffix]
        if size % entry_bytes:
            raise UnreadablePartitionDirectory(
                f"{path} is cut: {size} bytes are no whole entries of {entry_bytes}; {RESTORE}"
            )
        return path


def _base_offsets(path: Path) -> tuple[int, ...]:
    if not path.is_dir():
        raise NoPartitionDirectory(f"{path} is no directory; name a Kafka partition directory such as orders-0")
    files = [file.name for file in path.iterdir() if file.is_file()]
    found = tuple(sorted(offset for name in files if (offset := names.base_offset_of_log(name)) is not None))
    if not found:
        inside = sorted(child.name for child in path.iterdir() if names.topic_and_partition_of(child.name))
        hint = (
            f"; did you mean {path / inside[0]}?" if inside else "; name a Kafka partition directory such as orders-0"
        )
        raise UnreadablePartitionDirectory(f"{path} holds no log segments{hint}")
    _refuse_indexes_without_log(path, files, set(found))
    return tuple(base for base in found if base == found[-1] or not _is_cleaned_away(path, base))


def _is_cleaned_away(path: Path, base_offset: int) -> bool:
    """Whether compaction left nothing of a segment but its files: its offsets then belong to the one before it."""
    files = (path / names.file_name(base_offset, suffix) for suffix in (names.LOG, names.OFFSET_INDEX))
    return all(file.is_file() and file.stat().st_size == 0 for file in files)


def _refuse_indexes_without_log(path: Path, files: list[str], base_offsets: set[int]) -> None:
    """Without the log, the segment before it would seem to reach up to the one after it."""
    for name in sorted(files):
        base_offset = names.base_offset_of_index(name)
        if base_offset is not None and base_offset not in base_offsets:
            log = path / names.file_name(base_offset, names.LOG)
            raise UnreadablePartitionDirectory(f"{log} is missing, but {name} is there; {RESTORE}")


def _topic_and_partition(path: Path, topic: str | None, partition: int | None) -> tuple[str, int]:
    named = names.topic_and_partition_of(path.resolve().name)
    if (topic is None or partition is None) and named is None:
        raise UnreadablePartitionDirectory(
            f"{path} is not named <topic>-<partition>; give the topic's name and the partition"
        )
    named_topic, named_partition = named or ("", -1)
    return topic or named_topic, named_partition if partition is None else partition


def _topic_id(path: Path) -> TopicId:
    file = path / names.PARTITION_METADATA
    if not file.is_file():
        raise UnreadablePartitionDirectory(f"{file} is missing; give the topic's id")
    return partition_metadata.decode(file.read_bytes())


def _leader_epochs(path: Path) -> LeaderEpochs:
    file = path / names.LEADER_EPOCH_CHECKPOINT
    if not file.is_file():
        raise UnreadablePartitionDirectory(f"{file} is missing; without it the leader epochs are not known")
    try:
        epochs = LeaderEpochs.from_checkpoint(file.read_bytes())
    except InvalidField as error:
        raise UnreadablePartitionDirectory(f"{file}: {error.message}") from None
    if not epochs:
        raise UnreadablePartitionDirectory(f"{file} has no entries; without them the leader epochs are not known")
    return epochs


def _max_timestamp_ms(log: Path, base_offset: int, end_offset: int) -> int:
    try:
        scan = scan_log(log)
    except CorruptLog as error:
        raise UnreadablePartitionDirectory(str(error)) from None
    if scan.first_offset is None or scan.last_offset is None:
        raise UnreadablePartitionDirectory(f"{log} is empty, but a later segment follows it; {RESTORE}")
    if scan.first_offset < base_offset:
        raise UnreadablePartitionDirectory(
            f"{log} begins with offset {scan.first_offset}, below that of its name; {RESTORE}"
        )
    if scan.last_offset > end_offset:
        raise UnreadablePartitionDirectory(
            f"{log} ends with offset {scan.last_offset}, but the next segment begins with {end_offset + 1}; {RESTORE}"
        )
    return scan.max_timestamp_ms
