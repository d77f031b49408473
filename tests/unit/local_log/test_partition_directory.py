from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tiergate_client.epochs import LeaderEpochs
from tiergate_client.ids import TopicId
from tiergate_client.local_log import names
from tiergate_client.local_log.partition_directory import PartitionDirectory, UnreadablePartitionDirectory
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState
from tiergate_server.kafka_files.sample import SamplePartition, write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SamplePartition:
    return write_sample(tmp_path_factory.mktemp("sample"), segments=4, segment_bytes=32 * 1024)


@pytest.fixture
def directory(sample: SamplePartition, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    copy = tmp_path / "orders-0"
    shutil.copytree(sample.directory, copy)
    return copy


def bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def read(directory: Path) -> None:
    list(PartitionDirectory.open(directory).rolled_segments())


def test_every_segment_but_the_last_is_rolled(sample: SamplePartition) -> None:
    opened = PartitionDirectory.open(sample.directory)
    segments = list(opened.rolled_segments())
    found = bases(sample.directory)
    assert [segment.base_offset for segment in segments] == found[:-1]
    assert [segment.end_offset + 1 for segment in segments] == found[1:]
    assert opened.rolled_size_bytes == sum(segment.size_bytes for segment in segments)
    assert opened.partition == sample.partition
    assert opened.partition.topic == "orders"


def test_a_directory_with_one_segment_has_nothing_rolled(directory: Path) -> None:
    for base in bases(directory)[1:]:
        for path in directory.glob(f"{base:020d}.*"):
            path.unlink()
    opened = PartitionDirectory.open(directory)
    assert list(opened.rolled_segments()) == []
    assert opened.rolled_size_bytes == 0


def test_epochs_are_clipped_to_the_segment_and_listed_up_to_its_end(directory: Path) -> None:
    first, second, third, *_ = bases(directory)
    middle = second + 3
    lineage = LeaderEpochs.of({0: first, 4: middle, 9: third})
    (directory / "leader-epoch-checkpoint").write_bytes(lineage.to_checkpoint())
    segments = list(PartitionDirectory.open(directory).rolled_segments())
    assert segments[0].leader_epochs == LeaderEpochs.of({0: first})
    assert segments[1].leader_epochs == LeaderEpochs.of({0: second, 4: middle})
    assert segments[2].leader_epochs == LeaderEpochs.of({9: third})
    assert LeaderEpochs.from_checkpoint(segments[1].data.leader_epoch) == LeaderEpochs.of({0: first, 4: middle})
    assert LeaderEpochs.from_checkpoint(segments[3].data.leader_epoch) == lineage


def test_the_snapshot_of_a_segment_is_the_one_of_its_end(sample: SamplePartition) -> None:
    for segment in PartitionDirectory.open(sample.directory).rolled_segments():
        assert segment.data.producer_snapshot == sample.directory / names.file_name(segment.end_offset + 1, ".snapshot")


def test_optional_files_may_be_absent(directory: Path) -> None:
    for path in [*directory.glob("*.snapshot"), *directory.glob("*.txnindex")]:
        path.unlink()
    for segment in PartitionDirectory.open(directory).rolled_segments():
        assert segment.data.producer_snapshot is None
        assert segment.data.txn_index is None
        assert segment.txn_index_empty


def test_only_the_segment_of_the_abort_marker_has_a_transaction_index(sample: SamplePartition) -> None:
    segments = list(PartitionDirectory.open(sample.directory).rolled_segments())
    assert [segment.txn_index_empty for segment in segments].count(False) == 1
    for segment in segments:
        assert (SegmentFile.TXN_INDEX in segment.data.sources) is not segment.txn_index_empty


def test_an_empty_transaction_index_counts_as_empty(directory: Path) -> None:
    (directory / names.file_name(0, ".txnindex")).touch()
    first = next(PartitionDirectory.open(directory).rolled_segments())
    assert first.txn_index_empty


def test_other_files_are_left_alone(directory: Path) -> None:
    expected = [segment.base_offset for segment in PartitionDirectory.open(directory).rolled_segments()]
    for name in ("notes.txt", "00000000000000000099.log.deleted", "00000000000000000077.snapshot", ".lock"):
        (directory / name).write_bytes(b"?")
    (directory / "00000000000000099999.log").mkdir()
    before = sorted(path.name for path in directory.iterdir())
    assert [segment.base_offset for segment in PartitionDirectory.open(directory).rolled_segments()] == expected
    assert sorted(path.name for path in directory.iterdir()) == before


def test_metadata_announces_a_new_attempt_each_time(sample: SamplePartition) -> None:
    segment = next(PartitionDirectory.open(sample.directory).rolled_segments())
    one, two = (segment.new_metadata(broker_id=3, event_timestamp_ms=77) for _ in range(2))
    assert one.segment_id != two.segment_id
    assert one.state is SegmentState.COPY_STARTED
    assert (one.broker_id, one.event_timestamp_ms) == (3, 77)
    assert one.segment_size_bytes == segment.log.stat().st_size
    assert one.txn_index_empty is segment.txn_index_empty
    assert one.max_timestamp_ms > 1_700_000_000_000


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_named(directory: Path, suffix: str) -> None:
    missing = directory / names.file_name(bases(directory)[1], suffix)
    missing.unlink()
    with pytest.raises(UnreadablePartitionDirectory, match=f"{missing.name} is missing"):
        read(directory)


def test_missing_files_of_the_active_segment_do_not_matter(directory: Path) -> None:
    (directory / names.file_name(bases(directory)[-1], ".index")).unlink()
    read(directory)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_that_is_cut_is_refused(directory: Path, suffix: str) -> None:
    (directory / names.file_name(0, suffix)).write_bytes(bytes(35))
    with pytest.raises(UnreadablePartitionDirectory, match=f"{suffix} is cut: 35 bytes"):
        read(directory)


def test_a_log_that_is_cut_is_refused_with_the_position(directory: Path) -> None:
    log = directory / names.file_name(0, ".log")
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(UnreadablePartitionDirectory, match=r"00\.log: the batch at position \d+ is cut"):
        read(directory)


@pytest.mark.parametrize("kept", [".index", ".timeindex"])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_missing_log_is_named_when_an_index_of_it_is_there(directory: Path, kept: str, place: int) -> None:
    log = directory / names.file_name(bases(directory)[place], ".log")
    for path in directory.glob(f"{log.stem}.*"):
        if path.suffix not in (kept, ".snapshot"):
            path.unlink()
    with pytest.raises(
        UnreadablePartitionDirectory, match=f"{log.name} is missing, but {log.stem}{kept} is there; restore the file"
    ):
        PartitionDirectory.open(directory)


def test_an_empty_log_is_refused_unless_it_is_the_active_one(directory: Path) -> None:
    *_, rolled, active = bases(directory)
    (directory / names.file_name(active, ".log")).write_bytes(b"")
    read(directory)
    (directory / names.file_name(rolled, ".log")).write_bytes(b"")
    with pytest.raises(
        UnreadablePartitionDirectory, match=rf"{rolled:020d}\.log is empty, .*; restore the file from another replica"
    ):
        read(directory)


def test_a_segment_of_which_compaction_left_nothing_belongs_to_the_one_before_it(directory: Path) -> None:
    first, emptied, following, *_ = bases(directory)
    for suffix in (".log", ".index", ".timeindex"):
        (directory / names.file_name(emptied, suffix)).write_bytes(b"")
    opened = PartitionDirectory.open(directory)
    assert opened.rolled_bounds[0] == (first, following - 1)
    segment = next(opened.rolled_segments())
    assert (segment.base_offset, segment.end_offset) == (first, following - 1)
    assert segment.data.producer_snapshot == directory / names.file_name(following, ".snapshot")


def test_a_log_with_a_damaged_record_is_refused_with_the_position(directory: Path) -> None:
    log = directory / names.file_name(0, ".log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    with pytest.raises(
        UnreadablePartitionDirectory, match=r"00\.log: the batch at position \d+ is damaged: .*; restore the file"
    ):
        read(directory)


def test_a_log_that_begins_below_its_name_is_refused(directory: Path) -> None:
    second = bases(directory)[1]
    for suffix in (".log", ".index", ".timeindex"):
        old = directory / names.file_name(second, suffix)
        old.rename(directory / names.file_name(second + 1, suffix))
    with pytest.raises(UnreadablePartitionDirectory, match=f"begins with offset {second}, below that of its name"):
        read(directory)


def test_a_log_that_reaches_into_the_next_one_is_refused(directory: Path) -> None:
    shutil.copy(directory / names.file_name(0, ".log"), directory / names.file_name(5, ".log"))
    with pytest.raises(UnreadablePartitionDirectory, match="but the next segment begins with 5"):
        read(directory)


def test_segments_below_the_first_epoch_are_not_copied(directory: Path) -> None:
    first, second, third, *_ = bases(directory)
    (directory / "leader-epoch-checkpoint").write_bytes(LeaderEpochs.of({3: second + 2}).to_checkpoint())
    segments = list(PartitionDirectory.open(directory).rolled_segments())
    assert [segment.base_offset for segment in segments][:2] == [second, third]
    assert segments[0].leader_epochs == LeaderEpochs.of({3: second + 2})
    assert first == 0


def test_an_identity_that_is_given_goes_before_the_directorys(directory: Path) -> None:
    topic_id = TopicId.random()
    opened = PartitionDirectory.open(directory, topic_id=topic_id, topic="other", partition=5)
    assert (opened.partition.topic_id, opened.partition.topic, opened.partition.partition) == (topic_id, "other", 5)


def test_an_identity_that_is_given_replaces_what_is_missing(directory: Path, tmp_path: Path) -> None:
    (directory / "partition.metadata").unlink()
    renamed = directory.rename(tmp_path / "backup")
    with pytest.raises(UnreadablePartitionDirectory, match="give the topic's name and the partition"):
        PartitionDirectory.open(renamed, topic_id=TopicId.random(), topic="orders")
    with pytest.raises(UnreadablePartitionDirectory, match=r"partition\.metadata is missing; give the topic's id"):
        PartitionDirectory.open(renamed, topic="orders", partition=0)
    PartitionDirectory.open(renamed, topic_id=TopicId.random(), topic="orders", partition=0)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("partition.metadata", b"version: 3\n", "partition.metadata: expected the two lines"),
        ("leader-epoch-checkpoint", b"1\n0\n", "version b'1' is not known"),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", "the entry count does not match"),
        ("leader-epoch-checkpoint", b"", "has no entries"),
        ("leader-epoch-checkpoint", None, "leader-epoch-checkpoint is missing"),
    ],
)
def test_an_odd_file_is_named(directory: Path, name: str, content: bytes | None, complaint: str) -> None:
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    with pytest.raises(UnreadablePartitionDirectory, match=complaint):
        PartitionDirectory.open(directory)


def test_a_directory_of_partitions_leads_to_the_partition(directory: Path) -> None:
    with pytest.raises(UnreadablePartitionDirectory, match=r"holds no log segments; did you mean .*orders-0\?"):
        PartitionDirectory.open(directory.parent)


def test_what_is_no_partition_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadablePartitionDirectory, match="is no directory"):
        PartitionDirectory.open(tmp_path / "missing-0")
    with pytest.raises(UnreadablePartitionDirectory, match="holds no log segments; name a Kafka partition"):
        PartitionDirectory.open(tmp_path)


def test_the_current_directory_has_a_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    assert PartitionDirectory.open(Path()).partition.topic == "orders"
