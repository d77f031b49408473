from __future__ import annotations

import pytest

from support.in_process_tiergate import InProcessTiergate
from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.segment_lifecycle import copy_segment
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.kafka_files.sample import SamplePartition


def test_copy_tells_how_much_was_sent_and_returns_what_the_log_holds(
    tiergate: InProcessTiergate, sample: SamplePartition
) -> None:
    local = next(PartitionDirectory.open(sample.directory).rolled_segments())
    sent: list[int] = []
    copied = copy_segment(
        tiergate,
        local,
        begun=None,
        broker_id=4,
        clock=lambda: 1234,
        observe=sent.append,
        warn=lambda left: pytest.fail(str(left)),
    )
    assert sent == sorted(sent)
    total = sum(checksum.size_bytes for checksum in tiergate.storage.get_manifest(copied).files.values())
    assert sent[-1] == total
    assert copied == tiergate.metadata.get_segment(copied.segment_id)
    assert (copied.state, copied.event_timestamp_ms) == (SegmentState.COPY_FINISHED, 1234)


def test_copy_that_is_interrupted_while_it_is_announced_leaves_nothing(
    tiergate: InProcessTiergate, sample: SamplePartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = next(PartitionDirectory.open(sample.directory).rolled_segments())
    add_segment = tiergate.metadata.add_segment

    def interrupted(metadata: RemoteLogSegmentMetadata) -> None:
        add_segment(metadata)
        raise KeyboardInterrupt

    monkeypatch.setattr(tiergate.metadata, "add_segment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_segment(
            tiergate,
            local,
            begun=None,
            broker_id=-1,
            clock=lambda: 1,
            observe=lambda _: None,
            warn=lambda left: pytest.fail(str(left)),
        )
    assert list(tiergate.metadata.list_segments(local.partition)) == []
