from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_server.kafka_files.sample import SMALLEST_SEGMENT_BYTES, write_sample
from tiergate_server.kafka_files.segment_writer import INDEX_INTERVAL_BYTES


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def batches(log: bytes) -> list[tuple[int, bytes]]:
    """(position, batch) by following the length fields, independent of the reader."""
    found, position = [], 0
    while position < len(log):
        size = int.from_bytes(log[position + 8 : position + 12], "big") + 12
        found.append((position, log[position : position + size]))
        position += size
    return found


def test_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    one, two, other = (
        write_sample(tmp_path / name, segments=2, segment_bytes=SMALLEST_SEGMENT_BYTES, seed=seed)
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert contents(one.directory) == contents(two.directory)
    assert contents(one.directory) != contents(other.directory)
    assert one.partition != other.partition


def test_sample_of_another_topic_has_another_id(tmp_path: Path) -> None:
    one, two = (
        write_sample(tmp_path, topic=topic, segments=1, segment_bytes=SMALLEST_SEGMENT_BYTES)
        for topic in ("one", "two")
    )
    assert one.partition.topic_id != two.partition.topic_id


def test_sample_never_writes_over_what_is_there(tmp_path: Path) -> None:
    written = write_sample(tmp_path, segments=1, segment_bytes=SMALLEST_SEGMENT_BYTES)
    before = contents(written.directory)
    with pytest.raises(FileExistsError, match="orders-0 exists already"):
        write_sample(tmp_path, segments=1, segment_bytes=SMALLEST_SEGMENT_BYTES, seed=9)
    assert contents(written.directory) == before
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]


@settings(max_examples=15, deadline=None)
@given(segments=st.integers(1, 6), kibibytes=st.integers(16, 64), seed=st.integers(0, 2**32))
def test_sample_has_what_it_promises(
    segments: int, kibibytes: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    written = write_sample(
        tmp_path_factory.mktemp("sample"), segments=segments, segment_bytes=kibibytes * 1024, seed=seed
    )
    opened = PartitionDirectory.open(written.directory)
    rolled = list(opened.rolled_segments())
    assert len(rolled) == written.rolled_segment_count == segments
    assert len(opened.leader_epochs) == 2
    assert all(segment.size_bytes <= kibibytes * 1024 for segment in rolled)
    assert sum(not segment.txn_index_empty for segment in rolled) == 1
    assert not str(written.partition.topic_id).startswith("-")


def test_sample_offsets_epochs_and_checksums_fit_together(tmp_path: Path) -> None:
    written = write_sample(tmp_path, segments=4, segment_bytes=64 * 1024)
    lineage = LeaderEpochs.from_checkpoint((written.directory / "leader-epoch-checkpoint").read_bytes())
    second_epoch, second_start = lineage.entries[1]
    expected_offset = 0
    for path in sorted(written.directory.glob("*.log")):
        assert int(path.stem) == expected_offset
        for _, batch in batches(path.read_bytes()):
            base, epoch = struct.unpack_from(">q", batch)[0], struct.unpack_from(">i", batch, 12)[0]
            assert base == expected_offset
            assert epoch == (second_epoch if base >= second_start else 0)
            assert int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])
            expected_offset = base + struct.unpack_from(">i", batch, 23)[0] + 1
    assert expected_offset == written.end_offset + 1


def test_sample_indexes_follow_kafkas_rule(tmp_path: Path) -> None:
    written = write_sample(tmp_path, segments=2, segment_bytes=256 * 1024)
    for segment in PartitionDirectory.open(written.directory).rolled_segments():
        log = segment.log.read_bytes()
        starts = dict(batches(log))
        entries = list(struct.iter_unpack(">ii", segment.log.with_suffix(".index").read_bytes()))
        assert len(entries) > 10
        for relative, position in entries:
            base, delta = struct.unpack_from(">q", starts[position])[0], struct.unpack_from(">i", starts[position], 23)
            assert base + delta[0] == segment.base_offset + relative
        positions = [0, *(position for _, position in entries)]
        assert all(after - before > INDEX_INTERVAL_BYTES for before, after in pairwise(positions))
        times = list(struct.iter_unpack(">qi", segment.log.with_suffix(".timeindex").read_bytes()))
        assert times == sorted(times)
        assert times[-1][0] == segment.max_timestamp_ms


def test_sample_transaction_begins_one_segment_before_its_abort_marker(tmp_path: Path) -> None:
    written = write_sample(tmp_path)
    (index,) = written.directory.glob("*.txnindex")
    ((_, producer, first, last, stable),) = struct.iter_unpack(">hqqqq", index.read_bytes())
    assert first < int(index.stem) <= last
    assert first < stable <= last
    markers = []
    for path in sorted(written.directory.glob("*.log")):
        for _, batch in batches(path.read_bytes()):
            if struct.unpack_from(">h", batch, 21)[0] & 0x20:
                kind = batch[61:].index(b"\x08\x00\x00\x00") + 4
                markers.append(
                    (struct.unpack_from(">q", batch)[0], struct.unpack_from(">q", batch, 43)[0], batch[61 + kind])
                )
    assert markers[0] == (last, producer, 0)
    assert [kind for _, _, kind in markers] == [0, 1]
