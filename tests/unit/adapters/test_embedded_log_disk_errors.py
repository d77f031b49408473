from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiergate_client.errors import CommitStateUnknown, MetadataLogUnavailable
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.metadata.event_log import EventLogRefused

WAIT_S = 20.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedEventLog]:
    with contextlib.closing(EmbeddedEventLog(tmp_path / "events.db")) as log:
        log.publish(0, b"before").result(WAIT_S)
        yield log


def values(log: EmbeddedEventLog) -> list[bytes]:
    with contextlib.closing(log.subscribe({0: 0})) as stream:
        records = [record for _ in range(log.end_offsets([0])[0]) for record in stream.poll(timeout_s=0)]
    assert [record.offset for record in records] == list(range(len(records)))
    return [record.value for record in records]


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


class FaultyConnection:
    """A connection whose commits fail: the first ones of them, before or after they took place."""

    def __init__(self, real: sqlite3.Connection, *, code: int, failures: int = 1, after_commit: bool = False) -> None:
        self._real = real
        self._code = code
        self._failures = failures
        self._after_commit = after_commit

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def execute(self, statement: str, parameters: list[object] | tuple[object, ...] = ()) -> sqlite3.Cursor:
        if statement == "COMMIT" and self._failures:
            self._failures -= 1
            if self._after_commit:
                self._real.execute(statement)
            raise failure(self._code)
        return self._real.execute(statement, parameters)


def break_commits(log: EmbeddedEventLog, *, code: int, failures: int = 1, after_commit: bool = False) -> None:
    faulty = FaultyConnection(log._writer, code=code, failures=failures, after_commit=after_commit)
    log._writer = faulty  # type: ignore[assignment]


def test_a_full_disk_refuses_and_the_log_works_again_when_there_is_room(log: EmbeddedEventLog) -> None:
    pages = log._writer.execute("PRAGMA page_count").fetchone()[0]
    log._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(MetadataLogUnavailable, match=r"full.*free some disk space") as refused:
        log.publish(0, bytes(1 << 20)).result(WAIT_S)
    assert refused.value.retry_after_ms is not None
    log._writer.execute("PRAGMA max_page_count = 1000000")
    assert log.publish(0, b"after").result(WAIT_S) == 1
    assert values(log) == [b"before", b"after"]


def test_a_disk_full_at_commit_surely_appended_nothing(log: EmbeddedEventLog) -> None:
    break_commits(log, code=sqlite3.SQLITE_FULL)
    with pytest.raises(MetadataLogUnavailable):
        log.publish(0, b"lost").result(WAIT_S)
    assert log.publish(0, b"after").result(WAIT_S) == 1
    assert values(log) == [b"before", b"after"]


def test_a_failed_commit_that_was_settled_surely_appended_nothing(log: EmbeddedEventLog) -> None:
    break_commits(log, code=sqlite3.SQLITE_IOERR)
    with pytest.raises(MetadataLogUnavailable):
        log.publish(0, b"lost").result(WAIT_S)
    assert log._writer.execute("SELECT settled_count FROM log").fetchone() == (1,)
    assert log.publish(0, b"after").result(WAIT_S) == 1
    assert values(log) == [b"before", b"after"]


def test_a_failed_commit_that_took_place_is_acknowledged(log: EmbeddedEventLog) -> None:
    break_commits(log, code=sqlite3.SQLITE_IOERR, after_commit=True)
    assert log.publish(0, b"kept").result(WAIT_S) == 1
    assert values(log) == [b"before", b"kept"]


def test_a_failed_commit_that_cannot_be_settled_is_unknown_and_the_log_goes_on(log: EmbeddedEventLog) -> None:
    break_commits(log, code=sqlite3.SQLITE_IOERR, failures=2)
    with pytest.raises(CommitStateUnknown):
        log.publish(0, b"unknown").result(WAIT_S)
    assert log.publish(0, b"after").result(WAIT_S) == 1
    assert values(log) == [b"before", b"after"]


def test_an_unknown_commit_that_took_place_is_delivered_once_the_log_works_again(log: EmbeddedEventLog) -> None:
    break_commits(log, code=sqlite3.SQLITE_IOERR, failures=2, after_commit=True)
    with pytest.raises(CommitStateUnknown):
        log.publish(0, b"unknown").result(WAIT_S)
    assert log.publish(0, b"after").result(WAIT_S) == 2
    assert values(log) == [b"before", b"unknown", b"after"]


def test_each_publisher_of_a_failed_batch_gets_an_error_of_its_own(log: EmbeddedEventLog) -> None:
    with contextlib.closing(sqlite3.connect(log._path, isolation_level=None)) as holder:
        log._writer.execute("PRAGMA busy_timeout = 50")
        holder.execute("BEGIN IMMEDIATE")
        errors = [future.exception(WAIT_S) for future in [log.publish(0, b"x") for _ in range(20)]]
    assert {type(error) for error in errors} == {MetadataLogUnavailable}
    assert len({id(error) for error in errors}) == 20
    assert log.publish(0, b"after").result(WAIT_S) == 1


LIMITED_WRITER = """
import resource, sys
from pathlib import Path
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.metadata.event_log import EventLogRefused

path = Path(sys.argv[1])
log = EmbeddedEventLog(path)
assert log.publish(0, b"before").result(20) == 0
wal_bytes = path.with_name(path.name + "-wal").stat().st_size
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (wal_bytes, hard))
error = log.publish(0, b"refused").exception(20)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(type(error).__name__, log.publish(0, b"after").result(20))
log.close()
"""


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY, reason="file sizes are limited here"
)
def test_a_write_that_the_system_refuses_is_unknown_and_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    ran = subprocess.run([sys.executable, "-c", LIMITED_WRITER, path], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["CommitStateUnknown", "1"], ran.stderr
    with contextlib.closing(EmbeddedEventLog(path)) as log:
        assert values(log) == [b"before", b"after"]


def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventLogRefused, match=f"{tmp_path} is a directory: name a file"):
        EmbeddedEventLog(tmp_path)


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EventLogRefused, match="cannot be opened"):
        EmbeddedEventLog(tmp_path / "file" / "events.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_refused_until_it_can(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(EventLogRefused, match=r"Permission denied.*can be written to"):
            EmbeddedEventLog(tmp_path / "events.db")
    finally:
        tmp_path.chmod(0o700)
    EmbeddedEventLog(tmp_path / "events.db").close()
