from __future__ import annotations

import logging

import pytest

from tiergate_server.adapters.memory_log import MemoryEventLog


def test_a_new_memory_log_warns_once_that_nothing_survives(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryEventLog()
    log.publish(0, b"x").result(0)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "nothing of it survives" in warnings[0]


def test_a_memory_log_without_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="one partition at least"):
        MemoryEventLog(partition_count=0)
