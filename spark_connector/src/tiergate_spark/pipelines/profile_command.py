"""`tiergate-spark profile`: the pipeline of `profile.py` as a command."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import asdict, fields
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer

from tiergate_client.sizes import size_text
from tiergate_spark.options import Isolation
from tiergate_spark.pipelines.chart_axes import count_text, ratio_text
from tiergate_spark.pipelines.moments import parse_moment
from tiergate_spark.pipelines.profile import Profile
from tiergate_spark.pipelines.profile import profile as run_profile
from tiergate_spark.pipelines.profile_page import HourProfile, Measures, TopicProfile, profile_page
from tiergate_spark.pipelines.progress import progress_line
from tiergate_spark.pipelines.reports import require_new_report, write_report
from tiergate_spark.pipelines.session import Output, OutputFormat, print_summary, running_spark, session_of


def profile(
    context: typer.Context,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Whose records.", show_default=False)],
    *,
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write a page with plots there.")] = None,
    report: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write the hours there, into a new directory.")
    ] = None,
    report_format: Annotated[
        str, typer.Option(metavar="FORMAT", help="Format of the report, any that Spark writes.")
    ] = "parquet",
    from_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From the first record this late: 2026-11-16T09:30:00Z, or milliseconds."),
    ] = None,
    to_time: Annotated[str | None, typer.Option(metavar="TIME", help="Stop before the first record this late.")] = None,
    isolation: Annotated[Isolation, typer.Option(help="Which records of transactions.")] = "read_uncommitted",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Pass over offsets that are missing, instead of failing.")
    ] = False,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Tell what is in topics, by hour: records, bytes, codecs, compression, keys, tombstones and sizes.

    The page needs no network and no server: open it from disk.
    """
    session = session_of(context)
    options = {"kafka.isolation.level": isolation, "failOnDataLoss": str(not skip_missing).lower()}
    begin_ms, end_ms = parse_moment(from_time, option="--from-time"), parse_moment(to_time, option="--to-time")
    if begin_ms is not None:
        options |= {"startingTimestamp": str(begin_ms), "startingOffsetsByTimestampStrategy": "latest"}
    if end_ms is not None:
        options["endingTimestamp"] = str(end_ms)
    _require_place(html)
    with running_spark(session, name="profile") as spark, progress_line(quiet=output is OutputFormat.JSON) as progress:
        require_new_report(spark, report)
        profiled = run_profile(spark, topics, service=session.service, options=options, progress=progress)
        with closing(profiled) as measured:
            if report is not None:
                write_report(measured.hours, report, format=report_format)
            found = topic_profiles(measured)
    if html is not None:
        html.write_text(profile_page(found), encoding="utf-8")
    print_summary(
        output, document={"topics": [_document(one) for one in found]}, text=summary_text(found, html, report)
    )


def _require_place(html: Path | None) -> None:
    """Before the work is done for it."""
    if html is None:
        return
    if html.is_dir():
        raise typer.BadParameter(f"{html} is a directory; name a file", param_hint="--html")
    if not html.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no directory {html.parent}; make it first", param_hint="--html")
    if not os.access(html if html.exists() else html.absolute().parent, os.W_OK):
        raise typer.BadParameter(f"{html} cannot be written; name another place", param_hint="--html")


def topic_profiles(measured: Profile) -> list[TopicProfile]:
    """What a page is made of; all hours come to the driver."""
    hours: dict[str, list[HourProfile]] = {}
    for row in measured.hours.collect():
        hour_ms = None if row.hour is None else round(row.hour.astimezone(UTC).timestamp()) * 1000
        sizes = {name: row[f"record_bytes_{name}"] for name in ("p50", "p95", "p99")}
        hours.setdefault(row.topic, []).append(HourProfile(hour_ms, _measures(row), sizes))
    return [TopicProfile(row.topic, _measures(row), hours[row.topic]) for row in measured.topics.collect()]


def _measures(row: Any) -> Measures:
    return Measures(**{one.name: row[one.name] for one in fields(Measures)})


def _document(one: TopicProfile) -> dict[str, Any]:
    def measured(measures: Measures) -> dict[str, Any]:
        return {**asdict(measures), "compression_ratio": round(measures.compression_ratio, 3)}

    hours = [
        {"hour_ms": hour.hour_ms, **measured(hour.measures), "record_bytes": hour.record_bytes} for hour in one.hours
    ]
    return {"topic": one.topic, **measured(one.measures), "hours": hours}


def summary_text(found: list[TopicProfile], html: Path | None, report: str | None) -> str:
    lines = []
    for one in found:
        measures = one.measures
        codecs = sorted(measures.codec_bytes, key=lambda name: -measures.codec_bytes[name])
        named = ", ".join("no codec" if name == "none" else name for name in codecs)
        lines.append(
            f"{one.topic}: {count_text(measures.records)} records in {len(one.hours)} hours, "
            f"{size_text(measures.stored_bytes)} stored ({named}), {size_text(measures.plain_bytes)} uncompressed, "
            f"ratio {ratio_text(measures.compression_ratio)}, {count_text(measures.distinct_keys)} distinct keys"
        )
    lines += [] if found else ["there are no records"]
    lines += [] if html is None else [f"the page is {html}"]
    lines += [] if report is None else [f"the report is in {report}"]
    return "\n".join(lines)
