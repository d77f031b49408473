"""`tiergate metadata copy`: all events of one metadata log into another, such as from the embedded one to Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiergate_client.errors import TiergateError
from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import LogId
from tiergate_server.cli.console import counted, stderr_console, stdout_console
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.cli.metadata_logs import configured_log, log_name, opened
from tiergate_server.cli.segment_stores import opened_existing_stores
from tiergate_server.cli.server_options import Assignments, ConfigFile, DataDirectory, ServerOptions
from tiergate_server.cli.session import Output, OutputFormat, print_json
from tiergate_server.config import Config
from tiergate_server.metadata.assignment import parse_skip
from tiergate_server.metadata.event_log import MetadataEventLog
from tiergate_server.metadata.log_copy import CopyPlan, CopyRefused, copy_events, plan_copy
from tiergate_server.metadata.log_scan import spans_of
from tiergate_server.segments.store_marker import read_marker, rebind

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_REPEAT = "what was copied stays, and the same command goes on from there"


@dataclass(frozen=True, slots=True)
class _Copied:
    """What was copied, and the stores of segments that followed."""

    plan: CopyPlan
    rebound_stores: list[str]


def copy(
    *,
    source: Annotated[
        str,
        typer.Option("--from", metavar="LOG", help="embedded:/file or kafka://host:port[/topic]; no plane may use it."),
    ],
    target: Annotated[str, typer.Option("--to", metavar="LOG", help="The same; it is made if it does not exist.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, and copy nothing.")] = False,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Copy every event of a metadata log into another, whose number of partitions may differ.

    The target must be empty, or hold the beginning of the same copy, which then goes on. Events of unknown kinds are
    left out; a corrupt one ends the copy before it begins. Settings of Kafka are those of the server's configuration,
    and so are the stores of segments: those that belong to the source belong to the target then.
    """
    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    from_config, to_config = configured_log(source, options), configured_log(target, options)
    if log_name(from_config) == log_name(to_config):
        raise typer.BadParameter("it is the log that is copied; name another", param_hint="--to")
    try:
        with _opened_source(from_config, dry_run=dry_run) as opened_source:
            copied = _copied(opened_source, from_config, to_config, dry_run=dry_run, quiet=output is OutputFormat.JSON)
    except CopyRefused as refusal:
        raise CommandFailed(str(refusal), exit_code=ExitCode.REFUSED) from None
    if output is OutputFormat.JSON:
        print_json(_document(copied, from_config, to_config, dry_run=dry_run))
    else:
        stdout_console().print(_summary(copied, to_config, dry_run=dry_run), markup=False, soft_wrap=True)


def _copied(source: MetadataEventLog, from_config: Config, to_config: Config, *, dry_run: bool, quiet: bool) -> _Copied:
    rebound: list[str] = []
    with _opened_target(to_config, dry_run=dry_run) as target:
        total = sum(map(len, spans_of(source).values()))
        with _bar("checking", total, quiet=quiet) as observe:
            plan = plan_copy(source, target, skip=parse_skip(from_config.metadata.skip), observe=observe)
        if target is not None and not dry_run:
            with _bar("copying", total, quiet=quiet) as observe:
                try:
                    copy_events(plan, source, target, observe=observe)
                except TiergateError as error:
                    error.add_note(f"the copy was cut off, {_REPEAT}")
                    raise
            rebound = _rebound_stores(to_config, source.log_id, target.log_id)
    return _Copied(plan, rebound)


def _rebound_stores(config: Config, source_id: LogId, target_id: LogId) -> list[str]:
    """The names of the stores that belonged to the source."""
    names = []
    try:
        with opened_existing_stores(config) as stores:
            for name, store in stores.items():
                marker = read_marker(store)
                if marker is not None and marker.log_id == source_id:
                    rebind(store, replace(marker, log_id=target_id))
                    names.append(name)
    except TiergateError as error:
        error.add_note("all events are copied, but the stores of segments are not bound to the new log: run it again")
        raise
    return names


def _opened_source(config: Config, *, dry_run: bool) -> AbstractContextManager[MetadataEventLog]:
    from tiergate_server.event_logs import open_to_copy_from, open_to_read  # noqa: PLC0415 - SQLite only where needed

    return opened(open_to_read if dry_run else open_to_copy_from, config)


def _opened_target(config: Config, *, dry_run: bool) -> AbstractContextManager[MetadataEventLog | None]:
    from tiergate_server.event_logs import open_to_read, open_to_write  # noqa: PLC0415 - as above

    if not dry_run:
        return opened(open_to_write, config)
    database = config.metadata_database
    return nullcontext() if database is not None and not database.exists() else opened(open_to_read, config)


@contextmanager
def _bar(doing: str, total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """On a terminal; it disappears when it is done."""
    console = stderr_console()
    if quiet or not console.is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=total)
        yield lambda: progress.advance(task)


def _document(copied: _Copied, from_config: Config, to_config: Config, *, dry_run: bool) -> dict[str, Any]:
    plan = copied.plan
    return {
        "dry_run": dry_run,
        "from": log_name(from_config),
        "to": log_name(to_config),
        "event_count": plan.event_count,
        "copied_count": plan.event_count - plan.present_count,
        "present_count": plan.present_count,
        "left_out_count": plan.unknown_count,
        "rebound_stores": copied.rebound_stores,
    }


def _summary(done: _Copied, to_config: Config, *, dry_run: bool) -> str:
    plan = done.plan
    copied = counted(plan.event_count - plan.present_count, "event")
    present = f"; {plan.present_count} were there already" if plan.present_count else ""
    left_out = f"; {plan.unknown_count} of unknown kinds left out" if plan.unknown_count else ""
    rebound = "".join(f"; store {name} belongs to it now" for name in done.rebound_stores)
    return f"{'would copy' if dry_run else 'copied'} {copied} to {log_name(to_config)}{present}{left_out}{rebound}"
