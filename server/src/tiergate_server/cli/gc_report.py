"""What `tiergate gc` says: a table for people, one document for programs."""

from __future__ import annotations

from typing import Any

from tiergate_client.sizes import size_text
from tiergate_server.cli.console import Column, counted, print_table, stdout_console
from tiergate_server.cli.durations import duration_text
from tiergate_server.segments.garbage_collection import GarbageReport, Tally

_COLUMNS = (Column("STORE", style="cyan"), Column("WHAT"), Column("OBJECTS", "right"), Column("SIZE", "right"))

Reports = dict[str, GarbageReport]
"""By the name of the store."""


def print_reports(reports: Reports, *, older_than_s: int, is_dry_run: bool) -> None:
    console = stdout_console()
    rows = [
        (name, kind.meaning, str(tally.objects), size_text(tally.size_bytes))
        for name, report in reports.items()
        for kind, tally in report.garbage.items()
        if tally.objects
    ]
    if rows:
        print_table(console, _COLUMNS, rows)
    console.print(_summary(reports, older_than_s=older_than_s, is_dry_run=is_dry_run), markup=False, soft_wrap=True)


def _summary(reports: Reports, *, older_than_s: int, is_dry_run: bool) -> str:
    seen, found = (_sum(tallies) for tallies in zip(*((it.seen, it.found) for it in reports.values()), strict=True))
    looked = f"looked at {_amount(seen)}"
    if not found.objects:
        return f"{looked}, and nothing is garbage for longer than {duration_text(older_than_s)}"
    if is_dry_run:
        return f"{looked}, would remove {_amount(found)}; add --delete to do so"
    return f"{looked}, removed {_amount(found)}"


def _sum(tallies: tuple[Tally, ...]) -> Tally:
    return Tally(sum(tally.objects for tally in tallies), sum(tally.size_bytes for tally in tallies))


def _amount(tally: Tally) -> str:
    return f"{counted(tally.objects, 'object')} ({size_text(tally.size_bytes)})"


def left_alone(name: str, report: GarbageReport) -> str:
    shown = ", ".join(report.unknown_keys)
    more = " and others" if report.unknown.objects > len(report.unknown_keys) else ""
    amount = _amount(report.unknown)
    return f"left alone in store {name}, since this release cannot tell what it is: {amount}: {shown}{more}"


def document(reports: Reports, *, older_than_s: int, is_dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": is_dry_run,
        "older_than_seconds": older_than_s,
        "stores": {
            name: {
                "seen": _tally(report.seen),
                "garbage": {kind.value: _tally(tally) for kind, tally in report.garbage.items()},
                "unknown": _tally(report.unknown),
            }
            for name, report in reports.items()
        },
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {"object_count": tally.objects, "size_bytes": tally.size_bytes}
