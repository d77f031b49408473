from __future__ import annotations

import json
import shutil
import signal
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import BackendThrottled, InvalidTransition, StorageUnavailable, Unavailable
from tiergate_client.ids import TopicId
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import SegmentState, TopicIdPartition
from tiergate_server.kafka_files.sample import SamplePartition, write_sample


def states(tiergate: InProcessTiergate, partition: TopicIdPartition) -> list[SegmentState]:
    return [segment.state for segment in tiergate.metadata.list_segments(partition)]


def copied_with_another_record(sample: SamplePartition, directory: Path, *, place: int = 1) -> tuple[Path, Path]:
    """A directory whose log at `place` differs in its first batch, which is undamaged; and that log."""
    shutil.copytree(sample.directory, directory)
    log = sorted(directory.glob("*.log"))[place]
    content = bytearray(log.read_bytes())
    end = 12 + struct.unpack_from(">i", content, 8)[0]
    content[end - 1] ^= 1
    struct.pack_into(">I", content, 17, crc32c(content[21:end]))
    log.write_bytes(content)
    return directory, log


def test_put_finishes_every_rolled_segment(cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition) -> None:
    result = cli("put", str(sample.directory), "--broker-id", "7")
    assert result.exit_code == 0, result.stderr
    segments = list(tiergate.metadata.list_segments(sample.partition))
    assert [segment.state for segment in segments] == [SegmentState.COPY_FINISHED] * 3
    assert {segment.broker_id for segment in segments} == {7}
    assert all(segment.custom_metadata for segment in segments)
    assert result.stdout.count("copied  ") == 3
    assert "3 segments copied" in result.stdout.splitlines()[-1]


def test_put_stores_the_bytes_of_every_file(cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition) -> None:
    cli("put", str(sample.directory))
    for local, remote in zip(
        PartitionDirectory.open(sample.directory).rolled_segments(),
        tiergate.metadata.list_segments(sample.partition),
        strict=True,
    ):
        with tiergate.storage.fetch_segment(remote) as stream:
            assert stream.read() == local.log.read_bytes()
        for file, source in local.data.sources.items():
            if file is not SegmentFile.LOG:
                content = source.read_bytes() if isinstance(source, Path) else source
                assert tiergate.storage.fetch_index(remote, file) == content


def test_put_skips_what_is_there_when_repeated(cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition) -> None:
    first = cli("put", str(sample.directory), "-o", "json").document
    again = cli("put", str(sample.directory), "-o", "json").document
    assert (len(first["copied"]), len(first["skipped"])) == (3, 0)
    assert (len(again["copied"]), len(again["skipped"]), again["copied_bytes"]) == (0, 3, 0)
    assert [segment["segment_id"] for segment in again["skipped"]] == [
        segment["segment_id"] for segment in first["copied"]
    ]
    assert len(tiergate.watched_storage.copies) == 3


def test_put_copies_again_when_the_log_has_other_bytes(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, tmp_path: Path
) -> None:
    cli("put", str(sample.directory))
    changed, log = copied_with_another_record(sample, tmp_path / "orders-0")
    document = cli("put", str(changed), "-o", "json").document
    assert [segment["start_offset"] for segment in document["copied"]] == [int(log.stem)]
    assert len(document["skipped"]) == 2


def test_put_warns_when_another_log_has_the_same_offsets(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, stored: list[str], tmp_path: Path
) -> None:
    changed, log = copied_with_another_record(sample, tmp_path / "orders-0")
    dry = cli("put", str(changed), "--dry-run")
    assert (
        f"already finished with another log checksum as {stored[1]}; after a copy 2 segments would hold" in dry.stderr
    )
    result = cli("put", str(changed))
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    first = [each for each in tiergate.metadata.list_segments(sample.partition) if each.start_offset == int(log.stem)]
    (copy,) = [str(each.segment_id) for each in first if str(each.segment_id) != stored[1]]
    assert line.startswith(f"tiergate: orders-0 {int(log.stem)} - ")
    assert f"already finished with another log checksum as {stored[1]}; with {copy} 2 segments now hold" in line
    again = cli("put", str(changed))
    assert ("already there" in again.stdout, again.stderr) == (True, "")


def test_put_warns_in_the_document_of_the_copy_when_json_is_asked_for(
    cli: Cli, sample: SamplePartition, stored: list[str], tmp_path: Path
) -> None:
    changed, _ = copied_with_another_record(sample, tmp_path / "orders-0")
    result = cli("put", str(changed), "-o", "json")
    (copied,) = result.document["copied"]
    assert f"already finished with another log checksum as {stored[1]}" in copied["warning"]
    assert json.loads(result.stderr) == {"warning": copied["warning"]}


def test_put_does_not_warn_of_other_offsets(cli: Cli, sample: SamplePartition) -> None:
    result = cli("put", str(sample.directory), "-o", "json")
    assert [copied["warning"] for copied in result.document["copied"]] == [None] * 3
    assert result.stderr == ""


def test_put_help_says_what_is_compared(cli: Cli) -> None:
    said = " ".join(cli("put", "--help").stdout.split())
    assert "same first and last offset, the same leader epochs and the same checksum of the log" in said


@pytest.mark.parametrize("kept", [".index", ".timeindex"])
def test_put_copies_nothing_when_a_log_is_missing(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, tmp_path: Path, kept: str
) -> None:
    damaged = tmp_path / "orders-0"
    shutil.copytree(sample.directory, damaged)
    log = sorted(damaged.glob("*.log"))[1]
    for path in damaged.glob(f"{log.stem}.*"):
        if path.suffix != kept:
            path.unlink()
    result = cli("put", str(damaged))
    assert result.exit_code == 1
    assert result.stderr == (
        f"tiergate: {log} is missing, but {log.stem}{kept} is there; restore the file from another replica\n"
    )
    assert states(tiergate, sample.partition) == []


def test_put_refuses_a_damaged_log(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, tmp_path: Path
) -> None:
    damaged = tmp_path / "orders-0"
    shutil.copytree(sample.directory, damaged)
    log = min(damaged.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    result = cli("put", str(damaged))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"tiergate: {log}: the batch at position ")
    assert result.stderr.endswith("; restore the file from another replica\n")
    assert states(tiergate, sample.partition) == []


@pytest.mark.parametrize("partition", ["0", "5"])
def test_put_names_the_right_topic_when_its_id_is_known_under_another(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, stored: list[str], partition: str
) -> None:
    result = cli("put", str(sample.directory), "--topic", "invoices", "--partition", partition)
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == (
        f"tiergate: {sample.directory}: the topic with id {sample.partition.topic_id} is known as orders, "
        "not as invoices; put it with `--topic orders`\n"
    )
    assert len(tiergate.watched_storage.copies) == len(stored)


def test_put_names_the_right_topic_when_the_directory_was_renamed(
    cli: Cli, sample: SamplePartition, stored: list[str], tmp_path: Path
) -> None:
    renamed = tmp_path / "backup-0"
    shutil.copytree(sample.directory, renamed)
    assert "put it with `--topic orders`" in cli("put", str(renamed)).stderr
    again = cli("put", str(renamed), "--topic", "orders", "-o", "json")
    assert [segment["segment_id"] for segment in again.document["skipped"]] == stored


def test_put_copies_again_when_the_epochs_differ(cli: Cli, sample: SamplePartition, tmp_path: Path) -> None:
    cli("put", str(sample.directory))
    changed = tmp_path / "orders-0"
    shutil.copytree(sample.directory, changed)
    (changed / "leader-epoch-checkpoint").write_bytes(LeaderEpochs.of({5: 0}).to_checkpoint())
    document = cli("put", str(changed), "-o", "json").document
    assert (len(document["copied"]), len(document["skipped"])) == (3, 0)


def test_put_copies_again_when_the_copy_was_never_finished(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    dangling = next(PartitionDirectory.open(sample.directory).rolled_segments())
    started = dangling.new_metadata(broker_id=-1, event_timestamp_ms=0)
    tiergate.metadata.add_segment(started)
    assert len(cli("put", str(sample.directory), "-o", "json").document["copied"]) == 3
    again = cli("put", str(sample.directory))
    assert again.exit_code == 0
    (line,) = again.stderr.splitlines()
    assert line.startswith(f"tiergate: orders-0 0 - {dangling.end_offset}: an earlier copy of them")
    assert line.endswith(f"remove it with `tiergate rm {started.segment_id}`")


def test_put_copies_again_when_the_bytes_are_gone(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    cli("put", str(sample.directory))
    first = next(tiergate.metadata.list_segments(sample.partition))
    tiergate.storage.delete_segment(first)
    document = cli("put", str(sample.directory), "-o", "json").document
    assert [segment["start_offset"] for segment in document["copied"]] == [first.start_offset]


def test_put_only_says_what_it_would_copy_in_a_dry_run(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    result = cli("put", str(sample.directory), "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.count("would copy") == 3
    assert "3 segments would be copied" in result.stdout
    assert states(tiergate, sample.partition) == []
    assert cli("put", str(sample.directory), "--dry-run", "-o", "json").document["dry_run"] is True


def test_put_cleans_up_and_fails_when_a_copy_breaks(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    tiergate.watched_storage.break_copies_with = StorageUnavailable("the disk is away")
    result = cli("put", str(sample.directory))
    assert result.exit_code == 4
    assert result.stderr.startswith("tiergate: cannot copy ")
    assert "00000000000000000000.log: the disk is away; try again in a moment" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert [update.state for update in tiergate.watched_metadata.updates] == [
        SegmentState.DELETE_STARTED,
        SegmentState.DELETE_FINISHED,
    ]
    assert states(tiergate, sample.partition) == []
    assert len(tiergate.watched_storage.copies) == 1


def test_put_cleans_up_when_it_is_interrupted(cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition) -> None:
    tiergate.watched_storage.break_copies_with = KeyboardInterrupt()
    result = cli("put", str(sample.directory))
    assert (result.exit_code, result.stderr) == (130, "tiergate: interrupted\n")
    assert states(tiergate, sample.partition) == []


def test_put_cleans_up_when_it_is_terminated(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate(*_: object) -> None:
        assert states(tiergate, sample.partition) == [SegmentState.COPY_STARTED]
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(tiergate.watched_storage, "copy_segment", terminate)
    result = cli("put", str(sample.directory))
    assert (result.exit_code, result.stderr) == (143, "tiergate: terminated\n")
    assert states(tiergate, sample.partition) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_put_reports_a_failed_clean_up_beside_the_failure_itself(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    tiergate.watched_storage.break_copies_with = BackendThrottled("slow down")
    tiergate.watched_metadata.refuse_updates_with = InvalidTransition("another writer was faster")
    result = cli("put", str(sample.directory))
    warning, failure = result.stderr.splitlines()
    dangling = tiergate.watched_storage.copies[0].segment_id
    assert "another writer was faster" in warning
    assert f"`tiergate rm {dangling}`" in warning
    assert "slow down" in failure
    assert result.exit_code == 4
    assert states(tiergate, sample.partition) == [SegmentState.COPY_STARTED]
    leftover, warning, failure = cli("put", str(sample.directory), "-o", "json").stderr.splitlines()
    assert f"`tiergate rm {dangling}`" in json.loads(leftover)["warning"]
    assert "another writer was faster" in json.loads(warning)["warning"]
    assert json.loads(failure)["error"]["reason"] == "BACKEND_THROTTLED"


def test_put_does_not_clean_up_when_only_the_last_step_fails(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    tiergate.watched_metadata.refuse_updates_with = InvalidTransition("another writer was faster")
    result = cli("put", str(sample.directory))
    assert result.exit_code == 5
    assert [update.state for update in tiergate.watched_metadata.updates] == [SegmentState.COPY_FINISHED]


def test_put_names_segment_and_plane_when_a_copy_loses_the_segment_plane(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    tiergate.watched_storage.break_copies_with = Unavailable("failed to connect to all addresses")
    result = cli("put", str(sample.directory))
    log = sample.directory / "00000000000000000000.log"
    assert result.exit_code == 4
    assert result.stderr.startswith(
        f"tiergate: cannot copy {log}: cannot reach the segment plane at segments.test:7401"
    )


def test_put_takes_identity_from_options_before_the_directory(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    topic_id = TopicId.random()
    result = cli("put", str(sample.directory), "--topic-id", str(topic_id), "--topic", "invoices", "-p", "4")
    assert result.exit_code == 0
    (summary,) = tiergate.metadata.list_partitions()
    assert summary.partition == TopicIdPartition(topic_id, 4, "invoices")
    assert summary.partition.topic == "invoices"


def test_put_copies_several_directories(cli: Cli, tiergate: InProcessTiergate, tmp_path: Path) -> None:
    one, two = (
        write_sample(tmp_path, topic=topic, seed=seed, segments=1, segment_bytes=16 * 1024)
        for topic, seed in (("one", 1), ("two", 2))
    )
    assert cli("put", str(one.directory), str(two.directory)).exit_code == 0
    assert {summary.partition for summary in tiergate.metadata.list_partitions()} == {one.partition, two.partition}


def test_put_copies_nothing_when_one_of_the_directories_is_none(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition, tmp_path: Path
) -> None:
    result = cli("put", str(sample.directory), str(tmp_path / "missing-0"))
    assert result.exit_code == 3
    assert "missing-0 is no directory" in result.stderr
    assert states(tiergate, sample.partition) == []


@pytest.mark.parametrize(
    "arguments", [["a-0", "b-0", "--partition", "1"], ["a-0", "--topic-id", "nonsense"], [], ["a-0", "-o", "xml"]]
)
def test_put_is_refused_when_used_wrongly(cli: Cli, arguments: list[str]) -> None:
    result = cli("put", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("tiergate: ")
    assert len(result.stderr.splitlines()) == 1


def test_put_errors_are_json_when_json_is_asked_for(
    cli: Cli, tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    tiergate.watched_storage.break_copies_with = StorageUnavailable("the disk is away")
    result = cli("put", str(sample.directory), "-o", "json")
    assert result.stdout == ""
    assert result.error["reason"] == "STORAGE_UNAVAILABLE"
    assert result.error["exit_code"] == result.exit_code == 4


def test_a_remote_segment_describes_a_local_one_when_offsets_epochs_and_size_agree(sample: SamplePartition) -> None:
    local = next(PartitionDirectory.open(sample.directory).rolled_segments())
    remote = local.new_metadata(broker_id=3, event_timestamp_ms=5)
    assert local.is_described_by(remote)
    assert not local.is_described_by(replace(remote, end_offset=remote.end_offset + 1))
    assert not local.is_described_by(replace(remote, segment_size_bytes=remote.segment_size_bytes + 1))
