"""`tiergate rebuild`: reads the manifests of a store back into an empty metadata log."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from tiergate_client.errors import TiergateError
from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import LogId
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.console import counted, stdout_console
from tiergate_server.cli.counters import counter
from tiergate_server.cli.housekeeping import Markers, is_empty, read_markers, refused, whole_log
from tiergate_server.cli.notices import warn
from tiergate_server.cli.segment_stores import THREADS, load, opened_stores
from tiergate_server.cli.server_options import Assignments, ConfigFile, DataDirectory, ServerOptions
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.rebuild import CANNOT_TELL, Rebuild, RebuildReport
from tiergate_server.segments.store_marker import StoreMarkerV1, rebind


def rebuild(
    context: typer.Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything, and write nothing.")] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Also from a store that another metadata log, gone for good, had.")
    ] = False,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Read the manifests of the stores back into an empty metadata log, and bind the stores to it.

    So a bucket is attached to a new cluster, or survives the loss of its log. Nobody else may write to the log
    meanwhile. When it was cut off, the same command goes on. Ends with exit code 1 when a manifest could not be used.
    """
    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    with connected(session_of(context)) as tiergate, opened_stores(load(options)) as stores:
        log_id = _permitted_log(tiergate, read_markers(stores), may_take_over=take_over)
        report = _rebuilt(tiergate, stores, log_id, dry_run=dry_run, quiet=output is OutputFormat.JSON)
    for sentence in report.skipped:
        warn(sentence, output)
    if output is OutputFormat.JSON:
        print_json(_document(report, log_id, dry_run=dry_run))
    else:
        _print(report, dry_run=dry_run)
    if report.skipped:
        raise typer.Exit(ExitCode.FAILED)


def _permitted_log(tiergate: Tiergate, markers: Markers, *, may_take_over: bool) -> LogId:
    log_id = whole_log(tiergate)
    if "follow" in tiergate.server_info("metadata").features:
        raise refused("the metadata plane only follows the log of another service: rebuild into one that it owns")
    was_interrupted = any(marker == StoreMarkerV1(log_id, is_rebuilding=True) for marker in markers.values())
    if not was_interrupted and not is_empty(tiergate):
        raise refused(
            f"the metadata log {log_id} is not empty, and a rebuild would mix two histories: start the metadata plane "
            "with a new log"
        )
    for name, marker in markers.items():
        if marker is not None and marker.log_id != log_id and not may_take_over:
            raise refused(
                f"store {name} belongs to the metadata log {marker.log_id}: if that one is gone for good, take the "
                "store over with --take-over"
            )
    return log_id


def _rebuilt(
    tiergate: Tiergate, stores: Mapping[str, ObjectStore], log_id: LogId, *, dry_run: bool, quiet: bool
) -> RebuildReport:
    if not dry_run:
        _bind(stores, StoreMarkerV1(log_id, is_rebuilding=True))
    with counter("segments", quiet=quiet) as tell, ThreadPoolExecutor(THREADS) as fetchers:
        run = Rebuild(
            stores,
            tiergate.metadata,
            writes=not dry_run,
            fetch_all=fetchers.map,
            observe=lambda report: tell(report.added + report.present, f"{len(report.skipped)} not used"),
        )
        try:
            report = run.run()
        except TiergateError as error:
            added = counted(run.report.added, "segment")
            error.add_note(f"cut off after {added}, which stay; the same command goes on")
            raise
    if not dry_run:
        _bind(stores, StoreMarkerV1(log_id))
    return report


def _bind(stores: Mapping[str, ObjectStore], marker: StoreMarkerV1) -> None:
    for store in stores.values():
        rebind(store, marker)


def _print(report: RebuildReport, *, dry_run: bool) -> None:
    console = stdout_console()
    lines = [f"{'would add' if dry_run else 'added'} {counted(report.added, 'segment')} to the metadata log"]
    if report.present:
        lines.append(f"{counted(report.present, 'segment')} were there already")
    if report.tombstones:
        lines.append(f"{counted(report.tombstones, 'deleted segment')} left out")
    if report.unfinished:
        lines.append(f"{counted(report.unfinished, 'unfinished upload')} left out")
    lines.append("manifests do not tell:")
    lines += (f"- {sentence}" for sentence in CANNOT_TELL)
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _document(report: RebuildReport, log_id: LogId, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "log_id": str(log_id),
        "added_count": report.added,
        "present_count": report.present,
        "tombstone_count": report.tombstones,
        "unfinished_count": report.unfinished,
        "skipped": report.skipped,
        "cannot_tell": CANNOT_TELL,
    }
