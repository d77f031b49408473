"""The event log of a single machine: one SQLite file that one process owns.

Responsible for durability (an offset is answered only after the commit that holds it is synced) and for the file's
format; not for what the events mean.

Format 1, under the application id "TGLG" and with `user_version` as its version:

    log(log_id, partition_count, settled_count)     one row
    events(partition, offset, value)                offsets of a partition are 0, 1, 2, … without gaps
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

from tiergate_client.errors import CommitStateUnknown, MetadataCorrupt, MetadataLogUnavailable, TiergateError
from tiergate_client.ids import LogId
from tiergate_server.adapters.disk import OsDisk
from tiergate_server.adapters.durable_directories import make_durable_directories
from tiergate_server.adapters.owner_lock import FileIsOwned, OwnerLock
from tiergate_server.adapters.polled_stream import LogProgress, PolledStream, Span
from tiergate_server.adapters.publish_queue import PendingRecord, PublishQueue
from tiergate_server.adapters.recent_records import RecentRecords
from tiergate_server.metadata.event_log import EventLogRefused, EventStream, LogRecord, MetadataEventLog, StreamClosed

_FORMAT_VERSION = 1
_APPLICATION_ID = int.from_bytes(b"TGLG")
_BUSY_TIMEOUT_S = 2.0  # the process is alone with the file, but a curious `sqlite3` may hold it for a moment
_RETRY_AFTER_MS = 1000
_MAX_READ_BYTES = 4 << 20
_WAL_LIMIT_BYTES = 64 << 20
# Each statement gives the interpreter lock away, and beside a busy thread it may come back only after a switch interval
# (5 ms). The slowest 500 rows seen took 2 s by executemany, which does so for each row, and 65 ms in statements of 64.
_ROWS_PER_INSERT = 64

_logger = logging.getLogger(__name__)


class EventLogInUse(EventLogRefused):
    """Another owner has the file open."""


class EmbeddedEventLog(MetadataEventLog):
    def __init__(self, path: Path, *, partition_count: int = 50) -> None:
        """Opens the log, or makes it; the partition count of a log that exists wins. Raises EventLogRefused."""
        if partition_count < 1:
            raise ValueError(f"partition_count is {partition_count}: a log has one partition at least")
        self._path = path.resolve()
        self._closing = threading.Lock()
        self._readers: weakref.WeakSet[SpanReader] = weakref.WeakSet()
        self._queue = PublishQueue()
        self._recent = RecentRecords()
        self._in_doubt = False
        with contextlib.ExitStack() as resources, _refusing(self._path):
            resources.callback(_own(self._path).release)
            self._writer = _connect(self._path)
            resources.callback(self._writer.close)
            self._log_id, count = _prepare(self._writer, self._path, partition_count)
            self._progress = LogProgress([0] * count)
            self._progress.advance(_stored_ends(self._writer, self.partition_count))
            self._resources = resources.pop_all()
        if count != partition_count:
            _logger.info("%s has %d partitions, which wins over the %d configured", path, count, partition_count)
        self._committer = threading.Thread(target=self._commit_queued, name="event-log-committer", daemon=True)
        self._committer.start()

    @property
    def log_id(self) -> LogId:
        return self._log_id

    @property
    def partition_count(self) -> int:
        return len(self._progress.ends)

    def publish(self, partition: int, value: bytes) -> Future[int]:
        self._progress.require([partition])
        item = PendingRecord(partition, value)
        self._queue.put(item)
        return item.future

    def subscribe(self, starts: Mapping[int, int]) -> EventStream:
        reader = SpanReader(self._path, self._recent)
        stream = PolledStream(self._progress, reader, starts=starts)
        with self._progress.changed:
            self._readers.add(reader)
        return stream

    def begin_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        return self._progress.ends_of(partitions)

    def close(self) -> None:
        """Ends every stream, commits what is queued and gives the file up; a second time is fine."""
        with self._closing:
            self._progress.close()
            self._queue.close()
            self._committer.join()
            with self._progress.changed:
                readers = list(self._readers)
            for reader in readers:
                reader.close()
            self._resources.close()

    def _commit_queued(self) -> None:
        while batch := self._queue.take():
            try:
                offsets = self._append(batch)
            except TiergateError as error:
                _logger.warning("%s", error)
                _fail(batch, error)
            except Exception:  # a defect here must not leave publishers waiting for ever
                _logger.exception("Appending %d records to %s failed", len(batch), self._path)
                _fail(batch, CommitStateUnknown(f"{self._path} failed; the server's log has the cause."))
            else:
                for item, offset in zip(batch, offsets, strict=True):
                    item.future.set_result(offset)

    def _append(self, batch: list[PendingRecord]) -> list[int]:
        records = self._insert(batch)
        try:
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            self._settle(records, error)
        self._in_doubt = False
        self._recent.append(records)
        # Before the futures are resolved: who sees its offset also sees the end beyond it.
        self._progress.advance({record.partition: record.offset + 1 for record in records})
        return [record.offset for record in records]

    def _insert(self, batch: list[PendingRecord]) -> list[LogRecord]:
        """Begins the transaction and inserts; any failure up to here leaves nothing behind."""
        try:
            if self._in_doubt:
                self._roll_back()
            self._writer.execute("BEGIN IMMEDIATE")  # refused while an older transaction is not rolled back
            if self._in_doubt:
                self._progress.advance(_stored_ends(self._writer, self.partition_count))
            self._in_doubt = True
            records = self._numbered(batch)
            for first in range(0, len(records), _ROWS_PER_INSERT):
                chunk = records[first : first + _ROWS_PER_INSERT]
                places = ",".join(["(?,?,?)"] * len(chunk))
                cells = [cell for record in chunk for cell in (record.partition, record.offset, record.value)]
                self._writer.execute(f"INSERT INTO events VALUES {places}", cells)  # noqa: S608
        except sqlite3.Error as error:
            self._roll_back()
            raise self._not_appended(len(batch), error) from error
        return records

    def _numbered(self, batch: list[PendingRecord]) -> list[LogRecord]:
        ends = list(self._progress.ends)  # only this thread moves them
        records = []
        for item in batch:
            records.append(LogRecord(item.partition, ends[item.partition], item.value))
            ends[item.partition] += 1
        return records

    def _settle(self, records: list[LogRecord], error: sqlite3.Error) -> None:
        """After a COMMIT that failed: returns when the records are there all the same, raises when not or not known.

        A full disk shows before the commit frame is written. After any other failure the frames may lie whole in the
        WAL, invisible now but valid to the recovery after a crash, until a later commit has overwritten them: only
        then is "not there" final.
        """
        self._roll_back()
        if _code(error) == sqlite3.SQLITE_FULL:
            raise self._not_appended(len(records), error) from error
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.execute("UPDATE log SET settled_count = settled_count + 1")
            self._writer.execute("COMMIT")
            stored = _stored_ends(self._writer, self.partition_count)
        except sqlite3.Error:
            raise CommitStateUnknown(
                f"{self._path} failed to commit {len(records)} records ({error}): whether they are there is not known."
            ) from error
        if stored[records[0].partition] <= records[0].offset:
            raise self._not_appended(len(records), error) from error

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # the next batch begins by trying again
                self._writer.execute("ROLLBACK")

    def _not_appended(self, count: int, error: sqlite3.Error) -> MetadataLogUnavailable:
        way_out = "free some disk space" if _code(error) == sqlite3.SQLITE_FULL else "see to the disk if it persists"
        return MetadataLogUnavailable(
            f"{self._path} did not take {count} records ({error}): publish again; {way_out}.",
            retry_after_ms=_RETRY_AFTER_MS,
        )


def read_state(path: Path) -> tuple[LogId, list[int]]:
    """The id of a log that exists, and where each of its partitions ends, whoever owns it. Raises EventLogRefused."""
    if not path.is_file():
        raise EventLogRefused(f"{path} does not exist: name the file of an event log.")
    with _refusing(path), contextlib.closing(_connect(path.resolve(), read_only=True)) as connection:
        if not _is_log(connection, path):
            raise EventLogRefused(f"{path} is empty, so it is no event log: name another file.")
        log_id, count = connection.execute("SELECT log_id, partition_count FROM log").fetchone()
        ends = _stored_ends(connection, count)
    return LogId(log_id), [ends[partition] for partition in range(count)]


class SpanReader:
    """The read connection of one stream, opened by its first read."""

    def __init__(self, path: Path, recent: RecentRecords) -> None:
        self._path = path
        self._recent = recent
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._in_use = threading.Lock()

    def read(self, spans: Iterable[Span], *, max_records: int) -> list[LogRecord]:
        """Stops after `max_records`, and after a few megabytes: values may be large."""
        records: list[LogRecord] = []
        read_bytes = 0
        with self._in_use:
            for span in spans:
                room = max_records - len(records)
                found = self._recent.read(span, max_records=room) or self._read_stored(span, room)
                records += found
                read_bytes += sum(len(record.value) for record in found)
                if len(records) >= max_records or read_bytes >= _MAX_READ_BYTES:
                    break
        return records

    def close(self) -> None:
        with self._in_use:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _read_stored(self, span: Span, max_records: int) -> list[LogRecord]:
        if self._closed:
            raise StreamClosed("The stream of the event log was closed.")
        try:
            if self._connection is None:
                self._connection = _connect(self._path, read_only=True)
            return self._select(self._connection, span, max_records)
        except sqlite3.Error as error:
            if _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
                raise MetadataCorrupt(f"{self._path} is damaged ({error}): restore it from a backup.") from error
            raise MetadataLogUnavailable(
                f"{self._path} could not be read ({error}): poll again.", retry_after_ms=_RETRY_AFTER_MS
            ) from error

    def _select(self, connection: sqlite3.Connection, span: Span, max_records: int) -> list[LogRecord]:
        records: list[LogRecord] = []
        read_bytes = 0
        wanted = range(span.first, min(span.end, span.first + max_records))
        select = "SELECT offset, value FROM events WHERE partition = ? AND offset >= ? ORDER BY offset LIMIT ?"
        # Closed even when left early: an open cursor would keep the WAL from being checkpointed.
        with contextlib.closing(connection.execute(select, (span.partition, span.first, len(wanted)))) as rows:
            for offset in wanted:
                row = rows.fetchone()
                if row is None or row[0] != offset:
                    raise MetadataCorrupt(
                        f"{self._path} lacks offset {offset} of partition {span.partition}: restore it from a backup."
                    )
                records.append(LogRecord(span.partition, offset, row[1]))
                read_bytes += len(row[1])
                if read_bytes >= _MAX_READ_BYTES:
                    break
        return records


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turns what goes wrong while a log is opened into one clear sentence."""
    try:
        yield
    except FileIsOwned as owned:
        owner = "this process" if owned.owner_pid == os.getpid() else "another process"
        raise EventLogInUse(
            f"{path} is in use by {owner} (pid {owned.owner_pid or 'unknown'}): "
            "stop that one first, or choose another file for this one."
        ) from None
    except sqlite3.Error as error:
        if _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise EventLogRefused(
                f"{path} is damaged or not an event log ({error}): restore it from a backup, or choose another file."
            ) from error
        raise EventLogRefused(
            f"{path} cannot be opened ({error}): check its permissions and the free space of its disk."
        ) from error
    except OSError as error:
        raise EventLogRefused(
            f"{path} cannot be opened ({error.strerror}): check that its directory exists and can be written to."
        ) from error


def _own(path: Path) -> OwnerLock:
    if path.is_dir():
        raise EventLogRefused(f"{path} is a directory: name a file for the event log.")
    make_durable_directories(OsDisk(), path.parent)
    return OwnerLock(path.with_name(f"{path.name}.lock"))


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the drive's cache
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, partition_count: int) -> tuple[LogId, int]:
    """Checks the format, or makes a new log. Answers its id and its partition count."""
    if not _is_log(connection, path):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE log (log_id BLOB NOT NULL, partition_count INTEGER, settled_count INTEGER)")
        connection.execute(
            "CREATE TABLE events (partition INTEGER, offset INTEGER, value BLOB NOT NULL,"
            " PRIMARY KEY (partition, offset)) WITHOUT ROWID"
        )
        connection.execute("INSERT INTO log VALUES (?, ?, 0)", (LogId.random().raw, partition_count))
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_FORMAT_VERSION}")
        connection.execute("COMMIT")
        OsDisk().fsync_directory(path.parent)
    if _pragma(connection, "journal_mode = WAL") != "wal":
        raise EventLogRefused(f"{path} is on a file system without shared memory: choose a local disk.")
    log_id, count = connection.execute("SELECT log_id, partition_count FROM log").fetchone()
    return LogId(log_id), count


def _stored_ends(connection: sqlite3.Connection, partition_count: int) -> dict[int, int]:
    newest = "SELECT coalesce(max(offset) + 1, 0) FROM events WHERE partition = ?"
    return {partition: connection.execute(newest, (partition,)).fetchone()[0] for partition in range(partition_count)}


def _is_log(connection: sqlite3.Connection, path: Path) -> bool:
    """False: the file is empty, perhaps since a crash while it was made. Raises EventLogRefused for anything else."""
    version = _pragma(connection, "user_version")
    if _pragma(connection, "application_id") == _APPLICATION_ID:
        if version != _FORMAT_VERSION:
            raise EventLogRefused(
                f"{path} has event log format {version}, this release knows format {_FORMAT_VERSION}: "
                "start the release that wrote it, or a newer one."
            )
        return True
    if version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise EventLogRefused(f"{path} is a SQLite database of another program: choose another file.")
    return False


def _pragma(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def _code(error: sqlite3.Error) -> int:
    """The primary result code: the low byte of the extended one."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _fail(batch: list[PendingRecord], error: TiergateError) -> None:
    for item in batch:  # each its own: a raised exception collects the traceback of whoever raises it
        item.future.set_exception(copy.copy(error))
