from __future__ import annotations

import pytest

from support.in_process_tiergate import InProcessTiergate
from tiergate_client.values import SegmentState
from tiergate_server.cli.lifecycle import copy_segment
from tiergate_server.kafka_files.partition_directory import PartitionDirectory
from tiergate_server.kafka_files.sample import SamplePartition


def test_copy_tells_how_much_was_sent_and_returns_what_the_log_holds(
    tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    local = next(PartitionDirectory.open(sample.directory).rolled_segments())
    sent: list[int] = []
    copied = copy_segment(tiergate, local, broker_id=4, clock=lambda: 1234, observe=sent.append, warn=pytest.fail)
    assert sent == sorted(sent)
    total = sum(checksum.size_bytes for checksum in tiergate.storage.get_manifest(copied).files.values())
    assert sent[-1] == total
    assert copied == tiergate.metadata.get_segment(copied.segment_id)
    assert (copied.state, copied.event_timestamp_ms) == (SegmentState.COPY_FINISHED, 1234)
