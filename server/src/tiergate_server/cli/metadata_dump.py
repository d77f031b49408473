"""`tiergate metadata dump`: every event of a metadata log, or everything in a snapshot file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated

import typer

from tiergate_client.errors import InvalidField
from tiergate_client.exit_codes import ExitCode
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.cli.metadata_events import LogEntry
from tiergate_server.cli.metadata_logs import configured_log, opened
from tiergate_server.cli.metadata_snapshot_file import snapshot_entries
from tiergate_server.cli.server_options import Assignments, ConfigFile, DataDirectory, ServerOptions
from tiergate_server.cli.session import Output, OutputFormat
from tiergate_server.metadata.event_codec import CorruptEvent, UnknownEvent, decode_event
from tiergate_server.metadata.event_log import LogRecord, MetadataEventLog
from tiergate_server.metadata.log_scan import scan, spans_of
from tiergate_server.metadata.snapshot import MetadataSnapshot, SnapshotRefused


def dump(
    *,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG",
            help="embedded:/file or kafka://host:port[/topic], instead of the server's own. It is only read, also "
            "while a plane uses it.",
        ),
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A snapshot, instead of a log.")
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Only this metadata partition; repeatable."),
    ] = None,
    from_offset: Annotated[int, typer.Option(metavar="N", min=0, help="Only from this offset of each on.")] = 0,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Print the events of the metadata log that are there by now, or what is in a snapshot; as JSON, one per line.

    Events of unknown kinds and corrupt ones are printed as such, with their bytes.
    """
    if snapshot is not None:
        if log is not None or from_offset:
            raise typer.BadParameter("it goes with neither --log nor --from-offset", param_hint="--snapshot")
        _print(_entries_of_snapshot(snapshot, partition), output)
        return
    from tiergate_server.event_logs import open_to_read  # noqa: PLC0415 - SQLite is not needed by other commands

    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    with opened(open_to_read, configured_log(log, options)) as opened_log:
        _print(_entries_of_log(opened_log, partition, from_offset), output)


def _print(entries: Iterator[LogEntry], output: OutputFormat) -> None:
    for entry in entries:
        sys.stdout.write(entry.text(output))


def _entries_of_log(log: MetadataEventLog, partitions: list[int] | None, from_offset: int) -> Iterator[LogEntry]:
    _require(partitions or (), log.partition_count)
    spans = {
        number: range(max(span.start, from_offset), span.stop)
        for number, span in spans_of(log).items()
        if not partitions or number in partitions
    }
    return (_entry(record) for record in scan(log, spans))


def _entry(record: LogRecord) -> LogEntry:
    try:
        event = decode_event(record.value)
    except UnknownEvent as reason:
        return _unreadable(record, "Unknown", reason)
    except CorruptEvent as reason:
        return _unreadable(record, "Corrupt", reason)
    return LogEntry.of(record.partition, record.offset, event)


def _unreadable(record: LogRecord, kind: str, reason: Exception) -> LogEntry:
    data = record.value.hex()
    document = {"kind": kind, "reason": str(reason), "value_hex": data}
    return LogEntry(record.partition, record.offset, f"{kind}{{{reason}: {data or 'no bytes'}}}", document)


def _entries_of_snapshot(path: Path, partitions: list[int] | None) -> Iterator[LogEntry]:
    snapshot = _read(path)
    _require(partitions or (), snapshot.partition_count)
    for number, partition in snapshot.partitions.items():
        if not partitions or number in partitions:
            for line, document in snapshot_entries(partition):
                yield LogEntry(number, partition.applied, line, document)


def _read(path: Path) -> MetadataSnapshot:
    from tiergate_server.metadata.snapshot_codec import decode  # noqa: PLC0415 - other commands do without it

    try:
        return decode(path.read_bytes())
    except SnapshotRefused as refusal:
        raise CommandFailed(f"{path}: {refusal}; the log still holds everything", exit_code=ExitCode.CORRUPT) from None


def _require(partitions: Collection[int], partition_count: int) -> None:
    for number in partitions:
        if number >= partition_count:
            raise InvalidField.of(
                "partition", f"there is no {number}, the log has the partitions 0 to {partition_count - 1}"
            )
