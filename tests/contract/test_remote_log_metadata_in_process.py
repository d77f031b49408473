from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract.remote_log_metadata_contract import RemoteLogMetadataContract, new_partition, new_segment

from support.local_metadata import LocalMetadata
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_server.adapters.memory_log import MemoryEventLog


class TestMetadataInProcess(RemoteLogMetadataContract):
    @pytest.fixture
    def metadata(self) -> Iterator[RemoteLogMetadata]:
        log = MemoryEventLog()
        local = LocalMetadata(log)
        yield local
        local.close()
        log.close()


def test_two_managers_on_one_log_see_each_others_writes() -> None:
    log = MemoryEventLog()
    one, two = LocalMetadata(log), LocalMetadata(log)
    segment = new_segment(new_partition(), 0, 9)
    one.add_segment(segment)
    two.token = one.token
    assert two.get_segment(segment.segment_id) == segment
    one.close()
    two.close()
    log.close()
