"""`tiergate-spark verify`: the pipeline of `verify.py` as a command."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tiergate_client.exit_codes import ExitCode
from tiergate_client.sizes import size_text
from tiergate_spark.pipelines.progress import progress_line
from tiergate_spark.pipelines.reports import require_new_report, write_report
from tiergate_spark.pipelines.session import Output, OutputFormat, print_summary, running_spark, session_of
from tiergate_spark.pipelines.verify import Verification, VerificationSummary
from tiergate_spark.pipelines.verify import verify as run_verify

_MOST_TOLD: Final = 50
_ORDER: Final = ("damage", "warning", "note")


def verify(
    context: typer.Context,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; all of them when none is named.")
    ] = None,
    *,
    report: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write all findings there, into a new directory.")
    ] = None,
    report_format: Annotated[
        str, typer.Option(metavar="FORMAT", help="Format of the report, any that Spark writes.")
    ] = "parquet",
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Check all that is stored of topics: batches, offsets, indexes, manifests and metadata against each other.

    Reads every byte of every finished segment, on the executors. Exit code 6 tells that damage was found; warnings and
    notes do not change it.
    """
    session = session_of(context)
    quiet = output is OutputFormat.JSON
    with running_spark(session, name="verify") as spark, progress_line(quiet=quiet) as progress:
        require_new_report(spark, report)
        verified = run_verify(spark, service=session.service, topics=topics or (), progress=progress)
        with closing(verified) as verification:
            if report is not None:
                write_report(verification.findings, report, format=report_format)
            told = _worst(verification)
    summary = verification.summary
    text = summary_text(told, summary)
    if report is not None:
        text += f"\nthe report is in {report}"
    print_summary(output, document={**asdict(summary), "findings": told}, text=text)
    if not summary.is_sound:
        raise typer.Exit(ExitCode.CORRUPT)


def _worst(verification: Verification) -> list[dict[str, Any]]:
    """Some findings, damage first."""
    severity = F.array_position(F.array(*map(F.lit, _ORDER)), F.col("severity"))
    columns = ("topic", "partition", "segment_id", "file", "position")
    rows = verification.findings.orderBy(severity, *columns).limit(_MOST_TOLD).collect()
    return [row.asDict() for row in rows]


def summary_text(told: list[dict[str, Any]], summary: VerificationSummary) -> str:
    """With the findings that are told one by one before it."""
    lines = list(map(_line, told))
    found = summary.damages + summary.warnings + summary.notes
    if found > len(told):
        lines.append(f"… and {found - len(told)} more; --report PATH writes all of them")
    gone = f"; {summary.gone_segments} deleted meanwhile" if summary.gone_segments else ""
    controls = f" and {_counted(summary.control_records, 'control record')}" if summary.control_records else ""
    damage = [f"{_counted(summary.damages, 'finding')} of damage"] if summary.damages else []
    others = ((summary.warnings, "warning"), (summary.notes, "note"))
    told_counts = ", ".join([*damage, *(_counted(*one) for one in others if one[0])]) or "no findings"
    lines.append(
        f"{_counted(summary.segments, 'segment')} of {_counted(summary.partitions, 'partition')} checked: "
        f"{summary.batches} batches, {summary.records} records{controls}, {size_text(summary.checked_bytes)}{gone}; "
        f"{told_counts}"
    )
    if summary.damaged_segments:
        lines.append(
            f"damaged: {_counted(summary.damaged_segments, 'segment')}; restore what is stored, or remove it with "
            "`tiergate rm` and copy it again"
        )
    return "\n".join(lines)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _line(finding: dict[str, Any]) -> str:
    places = [f"{finding['topic']}-{finding['partition']}"]
    if finding["segment_id"]:
        places.append(f"segment {finding['segment_id']}")
    if finding["file"]:
        at = "" if finding["position"] is None else f" at byte {finding['position']}"
        places.append(f"{finding['file']}{at}")
    if finding["offset"] is not None:
        places.append(f"offset {finding['offset']}")
    return f"{finding['severity']}: {', '.join(places)}: {finding['message']} [{finding['kind']}]"
