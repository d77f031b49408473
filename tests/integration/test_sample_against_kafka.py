"""Kafka's own DumpLogSegments reads the sample and has no complaint."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from support.kafka_jars import run_kafka_tool
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_server.kafka_files.sample import SamplePartition, write_sample

_BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* partitionLeaderEpoch: (\d+) isTransactional: (\w+) "
    r"isControl: (\w+) .* isvalid: (\w+)$",
    re.MULTILINE,
)
# What the tool prints instead of failing.
_COMPLAINTS = (
    "isvalid: false",
    "Mismatches",
    "Found ",
    "failed to pass sanity",
    "corrupt",
    "at end of",
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> SamplePartition:
    return write_sample(tmp_path_factory.mktemp("kafka"))


def dump(files: Iterable[Path], *options: str) -> str:
    names = ",".join(str(path) for path in sorted(files))
    assert names
    return run_kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options)


def assert_no_complaint(said: str) -> None:
    assert [complaint for complaint in _COMPLAINTS if complaint in said] == []


def test_kafka_reads_every_batch_and_record(sample: SamplePartition) -> None:
    said = dump(sample.directory.glob("*.log"), "--deep-iteration")
    assert_no_complaint(said)
    # The tool expects every file to begin with offset 0 (it compares the first record with -1): this it must report
    # of every later segment, and nothing else.
    later_bases = [base for base in PartitionDirectory.open(sample.directory).base_offsets if base]
    gaps = re.findall(r"^  (-?\d+) is followed by (\d+)$", said, re.MULTILINE)
    assert sorted(gaps) == sorted(("-1", str(base)) for base in later_bases)
    found = _BATCH.findall(said)
    offsets = [(int(base), int(last)) for base, last, *_ in found]
    assert offsets[0][0] == 0
    assert offsets[-1][1] == sample.end_offset
    assert all(following[0] == before[1] + 1 for before, following in pairwise(offsets))
    assert {valid for *_, valid in found} == {"true"}
    assert sum(int(count) for _, _, count, *_ in found) == sample.end_offset + 1
    assert len(re.findall(r"^\| offset: ", said, re.MULTILINE)) == sample.end_offset + 1
    assert said.count("endTxnMarker: ABORT") == said.count("endTxnMarker: COMMIT") == 1
    epochs = PartitionDirectory.open(sample.directory).leader_epochs
    assert {int(epoch) for _, _, _, epoch, *_ in found} == {epoch for epoch, _ in epochs}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafka_finds_the_indexes_sane_and_true_to_the_log(sample: SamplePartition, suffix: str) -> None:
    files = list(sample.directory.glob(f"*{suffix}"))
    sanity = dump(files, "--index-sanity-check")
    assert_no_complaint(sanity)
    assert sanity.count("passed sanity check") == len(files) == 5
    assert_no_complaint(dump(files, "--verify-index-only"))


def test_kafka_reads_the_transaction_index(sample: SamplePartition) -> None:
    said = dump(sample.directory.glob("*.txnindex"))
    assert_no_complaint(said)
    assert len(re.findall(r"^version: 0 producerId: 9000 firstOffset: \d+ lastOffset: \d+", said, re.MULTILINE)) == 1


def test_kafka_reads_the_producer_snapshots(sample: SamplePartition) -> None:
    files = list(sample.directory.glob("*.snapshot"))
    said = dump(files)
    assert_no_complaint(said)
    assert said.count("Dumping ") == len(files) == 5
    assert "producerId: 9000" in said
    assert "producerId: 9001" in said


def test_the_oracle_complains_about_a_damaged_sample(sample: SamplePartition, tmp_path: Path) -> None:
    source = min(sample.directory.glob("*.log"))
    content = bytearray(source.read_bytes())
    content[100] ^= 1
    damaged = tmp_path / source.name
    damaged.write_bytes(content)
    assert "isvalid: false" in dump([damaged])
    index = tmp_path / f"{source.stem}.index"
    entries = bytearray(source.with_suffix(".index").read_bytes())
    entries[3] ^= 1
    index.write_bytes(entries)
    damaged.write_bytes(source.read_bytes())
    assert "Mismatches" in dump([index], "--verify-index-only")
