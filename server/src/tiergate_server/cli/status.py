"""`tiergate status`: whether both planes serve, what they are, and how much they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tiergate_client.errors import TiergateError
from tiergate_client.exit_codes import ExitCode
from tiergate_client.sizes import size_text
from tiergate_server.cli.connection import Plane, ServerInfo, Tiergate, is_serving, opened, wrong_plane
from tiergate_server.cli.console import Column, counted, print_facts, print_table, stdout_console, styled
from tiergate_server.cli.log_status import LogStatus, log_status
from tiergate_server.cli.session import Output, OutputFormat, Session, print_json, session_of

if TYPE_CHECKING:
    from rich.text import Text

_COLUMNS = (
    Column("PLANE", style="bold"),
    Column("ADDRESS", folds=True),
    Column("HEALTH"),
    Column("READY"),
    Column("VERSION"),
)


@dataclass(frozen=True, slots=True)
class _PlaneStatus:
    plane: Plane
    address: str
    serving: bool
    info: ServerInfo | None
    trouble: str

    @property
    def ready(self) -> bool:
        return self.serving and self.info is not None and self.info.ready

    def document(self) -> dict[str, Any]:
        info = self.info
        return {
            "address": self.address or None,
            "serving": self.serving,
            "ready": self.ready,
            "version": info.version if info else None,
            "backend": info.backend if info else None,
            "limits": dict(info.limits) if info else None,
            "trouble": self.trouble or None,
            "warnings": list(info.warnings) if info else [],
        }


@dataclass(frozen=True, slots=True)
class _Totals:
    partitions: int
    segments: int
    finished_segments: int
    finished_size_bytes: int


def status(context: typer.Context, *, output: Output = OutputFormat.HUMAN) -> None:
    """Show the health of both planes, and what they hold.

    Ends with exit code 1 when a plane does not serve, or when an address is that of the other plane.
    """
    session = session_of(context)
    with opened(session) as tiergate:
        planes = [_plane_status(tiergate, "metadata", session.target)]
        metadata_info = planes[0].info
        planes.append(_segments_status(tiergate, session, metadata_info))
        log = log_status(tiergate, metadata_info) if planes[0].ready else None
        totals = _totals(tiergate) if planes[0].ready else None
    if output is OutputFormat.JSON:
        print_json(_document(planes, log, totals))
    else:
        _print(planes, log, totals)
    if not all(plane.serving for plane in planes):
        raise typer.Exit(ExitCode.FAILED)


def _segments_status(tiergate: Tiergate, session: Session, metadata_info: ServerInfo | None) -> _PlaneStatus:
    address = session.segments or (metadata_info.segments_address if metadata_info else "")
    if not address:
        return _PlaneStatus("segments", "", False, None, "its address is not known while the metadata plane is away")
    return _plane_status(tiergate, "segments", address)


def _plane_status(tiergate: Tiergate, plane: Plane, address: str) -> _PlaneStatus:
    try:
        info = tiergate.server_info(plane)
    except TiergateError as error:
        return _PlaneStatus(plane, address, False, None, error.message)
    if trouble := wrong_plane(plane, address, info):
        return _PlaneStatus(plane, address, False, info, trouble)
    trouble = _why_not_ready(tiergate) if plane == "metadata" and not info.ready else ""
    return _PlaneStatus(plane, address, is_serving(tiergate, plane), info, trouble)


def _why_not_ready(tiergate: Tiergate) -> str:
    """Any read is refused with the reason; none when the plane became ready in the meantime."""
    try:
        next(iter(tiergate.metadata.list_partitions()), None)
    except TiergateError as error:
        return error.message
    return ""


def _totals(tiergate: Tiergate) -> _Totals | None:
    try:
        summaries = list(tiergate.metadata.list_partitions())
    except TiergateError:
        return None
    return _Totals(
        partitions=len(summaries),
        segments=sum(summary.segment_count for summary in summaries),
        finished_segments=sum(summary.finished_segment_count for summary in summaries),
        finished_size_bytes=sum(summary.finished_size_bytes for summary in summaries),
    )


def _document(planes: list[_PlaneStatus], log: LogStatus | None, totals: _Totals | None) -> dict[str, Any]:
    return {
        "serving": all(plane.serving for plane in planes),
        "planes": {plane.plane: plane.document() for plane in planes},
        "metadata_log": log.document() if log else None,
        "partition_count": totals.partitions if totals else None,
        "segment_count": totals.segments if totals else None,
        "finished_segment_count": totals.finished_segments if totals else None,
        "finished_size_bytes": totals.finished_size_bytes if totals else None,
    }


def _print(planes: list[_PlaneStatus], log: LogStatus | None, totals: _Totals | None) -> None:
    console = stdout_console()
    print_table(console, _COLUMNS, [_row(plane) for plane in planes])
    console.print()
    facts: list[tuple[str, str | Text]] = [
        (f"{plane.plane} in", plane.info.backend) for plane in planes if plane.info and plane.info.plane == plane.plane
    ]
    facts += log.facts() if log else []
    if totals is not None:
        partitions, segments = counted(totals.partitions, "partition"), counted(totals.finished_segments, "segment")
        unfinished = totals.segments - totals.finished_segments
        more = f", {unfinished} unfinished" if unfinished else ""
        facts.append(("holds", f"{partitions}, {segments}, {size_text(totals.finished_size_bytes)}{more}"))
    facts += [(f"{plane.plane} trouble", plane.trouble) for plane in planes if plane.trouble]
    facts += [
        ("warning", styled(warning, "yellow")) for plane in planes if plane.info for warning in plane.info.warnings
    ]
    print_facts(console, facts)
    if any(plane.info is None for plane in planes):
        console.print("Start both planes with `make run`, or name others with --target and --segments.")


def _row(plane: _PlaneStatus) -> tuple[str | Text, ...]:
    health = styled("serving", "green") if plane.serving else styled("not serving", "red")
    if plane.info is None:
        health = styled("out of reach", "red")
    elif plane.info.plane != plane.plane:
        health = styled("wrong plane", "red")
    ready = styled("yes", "green") if plane.ready else styled("no", "yellow")
    return plane.plane, plane.address or "-", health, ready, plane.info.version if plane.info else "-"
