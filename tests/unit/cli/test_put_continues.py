"""A put that was killed in the middle of a large segment, and repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from support.segments import breaking
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.kafka_files.sample import SamplePartition, write_sample


@pytest.fixture
def large(tmp_path: Path) -> SamplePartition:
    return write_sample(tmp_path / "large", segments=1, segment_bytes=3 * BLOCK_BYTES)


def begin(tiergate: InProcessTiergate, sample: SamplePartition, *, blocks: int) -> RemoteLogSegmentMetadata:
    local = next(PartitionDirectory.open(sample.directory).rolled_segments())
    metadata = local.new_metadata(broker_id=-1, event_timestamp_ms=1)
    tiergate.metadata.add_segment(metadata)
    with pytest.raises(OSError, match="broke"):
        tiergate.storage.copy_segment(metadata, breaking(local.data, blocks * BLOCK_BYTES, wait=lambda: None))
    return metadata


def test_put_goes_on_with_the_copy_that_was_begun(
    cli: Cli, tiergate: InProcessTiergate, large: SamplePartition
) -> None:
    begun = begin(tiergate, large, blocks=2)
    result = cli("put", str(large.directory))
    assert result.exit_code == 0
    assert "continued" in result.stdout + result.stderr
    assert "was started and not finished" not in result.stderr
    (segment,) = cli("ls", "orders", "-o", "json").document["segments"]
    assert (segment["segment_id"], segment["state"]) == (str(begun.segment_id), "COPY_FINISHED")


def test_put_begins_anew_beside_a_copy_of_which_nothing_is_kept(
    cli: Cli, tiergate: InProcessTiergate, large: SamplePartition
) -> None:
    begun = begin(tiergate, large, blocks=0)
    assert "was started and not finished" in cli("put", str(large.directory)).stderr
    states = {it["segment_id"]: it["state"] for it in cli("ls", "orders", "-o", "json").document["segments"]}
    assert states.pop(str(begun.segment_id)) == "COPY_STARTED"
    assert list(states.values()) == ["COPY_FINISHED"]


def test_put_begins_anew_when_the_copy_that_was_begun_was_deleted(
    cli: Cli, tiergate: InProcessTiergate, large: SamplePartition
) -> None:
    begun = begin(tiergate, large, blocks=2)
    tiergate.storage.delete_segment(begun)
    assert cli("put", str(large.directory)).exit_code == 0
    states = {it["segment_id"]: it["state"] for it in cli("ls", "orders", "-o", "json").document["segments"]}
    assert states.pop(str(begun.segment_id)) == "COPY_STARTED"
    assert list(states.values()) == ["COPY_FINISHED"]
