from __future__ import annotations

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from support.segments import breaking, make_data
from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.kafka_files.sample import SamplePartition


@pytest.fixture
def half_done(tiergate: InProcessTiergate, stored: list[str]) -> SegmentId:
    """A copy that broke off after two blocks of its log, beside those that are complete."""
    complete = tiergate.metadata.get_segment(SegmentId.from_text(stored[0]))
    metadata = RemoteLogSegmentMetadata(
        partition=complete.partition,
        segment_id=SegmentId.random(),
        start_offset=complete.end_offset + 1,
        end_offset=complete.end_offset + 100,
        segment_leader_epochs=complete.segment_leader_epochs,
        segment_size_bytes=3 * BLOCK_BYTES,
        event_timestamp_ms=0,
    )
    data = breaking(make_data(log_bytes=3 * BLOCK_BYTES), 2 * BLOCK_BYTES, wait=lambda: None)
    with pytest.raises(OSError, match="broke"):
        tiergate.storage.copy_segment(metadata, data)
    return metadata.segment_id


def test_uploads_shows_what_is_kept_of_a_copy_that_broke_off(cli: Cli, half_done: SegmentId) -> None:
    (upload,) = cli("uploads", "orders", "-o", "json").document["uploads"]
    assert upload["segment_id"] == str(half_done)
    assert (upload["log_committed_bytes"], upload["log_size_bytes"]) == (2 * BLOCK_BYTES, 3 * BLOCK_BYTES)
    header, row, count = cli("uploads", "orders").stdout.splitlines()
    assert header.split() == ["P", "KEPT", "OF", "BEGUN", "STORE", "SEGMENT"]
    assert row.split()[:5] == ["0", "2.0", "MiB", "3.0", "MiB"]
    assert row.endswith(str(half_done))
    assert count == "1 upload"


@pytest.mark.usefixtures("stored")
def test_uploads_says_so_when_there_are_none(cli: Cli, sample: SamplePartition) -> None:
    assert cli("uploads", sample.partition.topic).stdout == "No uploads of orders are under way.\n"


def test_uploads_of_an_unknown_topic_is_not_found(cli: Cli) -> None:
    assert cli("uploads", "nobody").exit_code == 3
