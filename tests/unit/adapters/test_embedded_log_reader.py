"""Reading an embedded log that somebody else owns, or owned."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tiergate_client.errors import ReadOnly
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.embedded_log_reader import EmbeddedLogReader
from tiergate_server.metadata.event_log import EventLogRefused
from tiergate_server.metadata.log_scan import scan, spans_of


def values(path: Path) -> list[bytes]:
    reader = EmbeddedLogReader(path)
    try:
        return [record.value for record in scan(reader, spans_of(reader))]
    finally:
        reader.close()


def test_reader_sees_what_is_there_while_the_owner_writes_on(tmp_path: Path) -> None:
    owner = EmbeddedEventLog(tmp_path / "log.db", partition_count=3)
    owner.publish(1, b"first").result()
    reader = EmbeddedLogReader(tmp_path / "log.db")
    owner.publish(1, b"second").result()
    assert (reader.log_id, reader.partition_count) == (owner.log_id, 3)
    assert [record.value for record in scan(reader, spans_of(reader))] == [b"first"]
    assert values(tmp_path / "log.db") == [b"first", b"second"]
    owner.publish(2, b"third").result()
    owner.close()
    reader.close()
    assert values(tmp_path / "log.db") == [b"first", b"second", b"third"]


def test_reader_sees_everything_after_the_owner_was_killed_and_leaves_it_to_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib; from tiergate_server.adapters.embedded_log import EmbeddedEventLog;"
        "log = EmbeddedEventLog(pathlib.Path(sys.argv[1])); log.publish(0, b'kept').result();"
        "os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "log.db"
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False, env=os.environ)
    assert ended.returncode == -signal.SIGKILL
    assert values(path) == [b"kept"]
    owner = EmbeddedEventLog(path)
    assert owner.end_offsets([0]) == {0: 1}
    owner.close()


def test_reader_appends_nothing(tmp_path: Path) -> None:
    EmbeddedEventLog(tmp_path / "log.db").close()
    reader = EmbeddedLogReader(tmp_path / "log.db")
    with pytest.raises(ReadOnly):
        reader.publish(0, b"x").result()
    reader.close()
    assert values(tmp_path / "log.db") == []


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
def test_reader_refuses_what_is_no_log_and_makes_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "log.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EventLogRefused, match=r"log\.db"):
        EmbeddedLogReader(path)
    assert path.exists() == (content is not None)
    assert content is None or path.read_bytes() == content
