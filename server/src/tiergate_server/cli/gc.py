"""`tiergate gc`: finds what no metadata refers to, and removes it when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer

from tiergate_client.clock import system_clock
from tiergate_client.errors import TiergateError
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.console import counted
from tiergate_server.cli.counters import counter
from tiergate_server.cli.durations import parse_duration
from tiergate_server.cli.gc_report import Reports, document, left_alone, print_reports
from tiergate_server.cli.housekeeping import is_empty, read_markers, require_bound, require_no_segments, whole_log
from tiergate_server.cli.notices import warn
from tiergate_server.cli.segment_stores import load, opened_stores
from tiergate_server.cli.server_options import Assignments, ConfigFile, DataDirectory, ServerOptions
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of
from tiergate_server.segments.garbage_collection import GarbageCollection, GarbageReport
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.store_marker import StoreMarkerV1, bind

_SHORTEST_S = 3600


def gc(
    context: typer.Context,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what is found. Without it, nothing is.")] = False,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="Only what nobody has touched for so long, such as 90m or 7d: longer than any upload takes.",
        ),
    ] = "24h",
    no_upload_runs: Annotated[
        bool, typer.Option("--no-upload-runs", help="Allow less than 1h: nobody copies or deletes segments now.")
    ] = False,
    binds: Annotated[
        bool, typer.Option("--bind", help="Bind a store without a marker to this metadata log first.")
    ] = False,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Find what no metadata refers to and no running upload owns; with --delete, remove it.

    Which segments are in use is asked of the metadata plane; the stores are those of the server's configuration. The
    store's marker and the snapshots of the metadata are left alone, and so is what is not Tiergate's.
    """
    older_than_s = _safety_age(older_than, no_upload_runs=no_upload_runs)
    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    reports: Reports = {}
    with connected(session_of(context)) as tiergate, opened_stores(load(options)) as stores:
        _require_permission(tiergate, stores, may_bind=binds)
        before_ms = system_clock() - older_than_s * 1000
        for name, store in stores.items():
            run = partial(GarbageCollection, store, tiergate.metadata, before_ms=before_ms, deletes=delete)
            with _watched(name, quiet=output is OutputFormat.JSON) as observe:
                reports[name] = run(observe=observe).run()
    for name, report in reports.items():
        if report.unknown_keys:
            warn(left_alone(name, report), output)
    if output is OutputFormat.JSON:
        print_json(document(reports, older_than_s=older_than_s, is_dry_run=not delete))
    else:
        print_reports(reports, older_than_s=older_than_s, is_dry_run=not delete)


def _safety_age(text: str, *, no_upload_runs: bool) -> int:
    older_than_s = parse_duration(text, option="--older-than")
    if older_than_s < _SHORTEST_S and not no_upload_runs:
        raise typer.BadParameter(
            "less than 1h would end uploads that run; if none does, add --no-upload-runs", param_hint="--older-than"
        )
    return older_than_s


def _require_permission(tiergate: Tiergate, stores: Mapping[str, ObjectStore], *, may_bind: bool) -> None:
    log_id = whole_log(tiergate)
    markers = read_markers(stores)
    require_bound(markers, log_id, may_bind=may_bind)
    if is_empty(tiergate):
        require_no_segments(stores, log_id)
    for name, marker in markers.items():
        if marker is None:
            bind(stores[name], StoreMarkerV1(log_id))
    require_bound(read_markers(stores), log_id, may_bind=False)


@contextmanager
def _watched(name: str, *, quiet: bool) -> Iterator[Callable[[GarbageReport], None]]:
    """Shows how far it is, and says so when it ends early."""
    last: GarbageReport | None = None

    with counter(f"objects in {name}", quiet=quiet) as tell:

        def observe(report: GarbageReport) -> None:
            nonlocal last
            last = report
            tell(report.seen.objects, f"{report.found.objects} of them garbage")

        try:
            yield observe
        except TiergateError as error:
            seen = 0 if last is None else last.seen.objects
            error.add_note(f"store {name} was left after {counted(seen, 'object')}; the same command goes on")
            raise
