from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import event_log_publisher
from support.waiting import wait_until
from tiergate_client.errors import MetadataCorrupt
from tiergate_server.adapters.embedded_log import EmbeddedEventLog, EventLogInUse
from tiergate_server.metadata.event_log import EventLogRefused, LogRecord

WAIT_S = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "where" / "events.db"


@contextlib.contextmanager
def opened(path: Path, *, partition_count: int = 50) -> Iterator[EmbeddedEventLog]:
    with contextlib.closing(EmbeddedEventLog(path, partition_count=partition_count)) as log:
        yield log


def everything(log: EmbeddedEventLog) -> list[LogRecord]:
    records: list[LogRecord] = []
    count = sum(log.end_offsets(range(log.partition_count)).values())
    with contextlib.closing(log.subscribe(dict.fromkeys(range(log.partition_count), 0))) as stream:
        while len(records) < count:
            records += stream.poll(timeout_s=WAIT_S)
    return records


def alter(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_reopened_log_keeps_id_records_and_partition_count(path: Path) -> None:
    with opened(path, partition_count=4) as log:
        log_id = log.log_id
        for partition, value in ((0, b"a"), (3, b"b"), (0, b"c")):
            log.publish(partition, value).result(WAIT_S)
    with opened(path, partition_count=9) as log:
        assert (log.log_id, log.partition_count) == (log_id, 4)
        assert everything(log) == [LogRecord(0, 0, b"a"), LogRecord(0, 1, b"c"), LogRecord(3, 0, b"b")]
        assert log.publish(0, b"d").result(WAIT_S) == 2
        with pytest.raises(ValueError, match="partition 8 "):
            log.publish(8, b"x")


def test_every_connection_is_wal_with_full_synchronisation(path: Path) -> None:
    with opened(path) as log:
        log.publish(0, b"x").result(WAIT_S)
    with opened(path) as log, contextlib.closing(log.subscribe({0: 0})) as stream:
        stream.poll(timeout_s=WAIT_S)
        (reader,) = log._readers
        assert reader._connection is not None
        for connection in (log._writer, reader._connection):
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_second_opener_is_refused_in_the_same_process(path: Path) -> None:
    with opened(path) as log:
        with pytest.raises(EventLogInUse, match=rf"{path} is in use by this process \(pid {os.getpid()}\): stop"):
            EmbeddedEventLog(path)
        assert log.publish(0, b"still works").result(WAIT_S) == 0
    with opened(path) as log:
        assert len(everything(log)) == 1


def test_a_second_opener_is_refused_through_another_name_of_the_file(path: Path, tmp_path: Path) -> None:
    with opened(path):
        (tmp_path / "alias").symlink_to(path.parent)
        with pytest.raises(EventLogInUse):
            EmbeddedEventLog(tmp_path / "alias" / path.name)


def test_a_second_opener_is_refused_in_another_process(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, event_log_publisher.__file__, path, "owner"], stdout=subprocess.PIPE
    ) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline()
            with pytest.raises(EventLogInUse, match=rf"another process \(pid {owner.pid}\)"):
                EmbeddedEventLog(path)
        finally:
            owner.kill()
    with opened(path) as log:
        assert len(everything(log)) > 0


def test_a_newer_format_is_refused_by_name(path: Path) -> None:
    with opened(path):
        pass
    alter(path, "PRAGMA user_version = 2")
    with pytest.raises(EventLogRefused, match="has event log format 2, this release knows format 1"):
        EmbeddedEventLog(path)
    alter(path, "PRAGMA user_version = 1")
    with opened(path):
        pass


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 500)
    with pytest.raises(EventLogRefused, match=r"notes\.txt is damaged or not an event log"):
        EmbeddedEventLog(path)
    assert path.read_text() == "not a database\n" * 500


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    alter(tmp_path / "other.db", "CREATE TABLE songs (title)")
    with pytest.raises(EventLogRefused, match="database of another program"):
        EmbeddedEventLog(tmp_path / "other.db")


def test_an_empty_file_becomes_a_log_after_a_crash_while_it_was_made(tmp_path: Path) -> None:
    (tmp_path / "events.db").touch()
    with opened(tmp_path / "events.db") as log:
        assert log.publish(0, b"x").result(WAIT_S) == 0


def test_a_log_without_partitions_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="one partition at least"):
        EmbeddedEventLog(path, partition_count=0)


def test_a_queued_publish_can_be_cancelled_while_the_disk_is_slow(path: Path) -> None:
    with opened(path) as log, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as slow:
        slow.execute("BEGIN IMMEDIATE")
        taken = log.publish(0, b"taken")
        wait_until(taken.running)
        queued = log.publish(0, b"cancelled")
        assert queued.cancel()
        assert not taken.cancel()
        slow.execute("ROLLBACK")
        assert taken.result(WAIT_S) == 0
        assert log.publish(0, b"next").result(WAIT_S) == 1
        assert [record.value for record in everything(log)] == [b"taken", b"next"]


def test_a_poll_of_large_stored_values_is_bounded_in_bytes(path: Path) -> None:
    with opened(path) as log:
        for future in [log.publish(0, bytes(1 << 20)) for _ in range(12)]:
            future.result(WAIT_S)
    with opened(path) as log, contextlib.closing(log.subscribe({0: 0})) as stream:
        assert len(stream.poll(timeout_s=WAIT_S)) == 4


def test_a_hole_in_the_file_is_reported_as_damage(path: Path) -> None:
    with opened(path) as log:
        for future in [log.publish(7, b"x") for _ in range(3)]:
            future.result(WAIT_S)
    alter(path, "DELETE FROM events WHERE offset = 1")
    with opened(path) as log, pytest.raises(MetadataCorrupt, match="lacks offset 1 of partition 7"):
        log.subscribe({7: 0}).poll(timeout_s=WAIT_S)


def test_acknowledged_records_survive_kill_at_any_moment(path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    acknowledged: dict[tuple[int, int], bytes] = {}
    for number in range(15):
        acknowledged |= acknowledged_until_killed(path, name=f"round{number}", after_records=chance.randrange(1, 400))
        with opened(path) as log:
            stored = {(record.partition, record.offset): record.value for record in everything(log)}
            assert {place: stored.get(place) for place in acknowledged} == acknowledged
            assert len(set(stored.values())) == len(stored)
    assert len(acknowledged) >= 15


def acknowledged_until_killed(path: Path, *, name: str, after_records: int) -> dict[tuple[int, int], bytes]:
    command = [sys.executable, event_log_publisher.__file__, str(path), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as publisher:
        assert publisher.stdout is not None
        lines = [publisher.stdout.readline() for _ in range(after_records)]
        publisher.send_signal(signal.SIGKILL)
        lines += publisher.stdout.readlines()
    assert publisher.returncode == -signal.SIGKILL
    fields = [line.split() for line in lines if line.endswith(b"\n")]
    return {(int(partition), int(offset)): value for partition, offset, value in fields}
