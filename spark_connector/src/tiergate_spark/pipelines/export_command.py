"""`tiergate-spark export`: the pipeline of `export.py` as a command."""

from __future__ import annotations

from typing import Annotated

import typer

from tiergate_spark.option_values import parse_size
from tiergate_spark.options import Isolation
from tiergate_spark.pipelines.export import ExportOptions, check_options
from tiergate_spark.pipelines.export import export as run_export
from tiergate_spark.pipelines.key_values import parse_key_values
from tiergate_spark.pipelines.moments import parse_moment
from tiergate_spark.pipelines.progress import progress_line
from tiergate_spark.pipelines.session import Output, OutputFormat, print_summary, running_spark, session_of


def export(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Whose records.", show_default=False)],
    *,
    to: Annotated[str, typer.Option(metavar="PATH", help="The directory to write, wherever Spark can.")],
    format: Annotated[str, typer.Option(metavar="NAME", help="A file format of Spark's.")] = "parquet",  # noqa: A002
    partition_by: Annotated[
        str, typer.Option(metavar="NAME,…", help="Directories by date and hour (UTC), below those by partition.")
    ] = "",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this one; may be repeated.")
    ] = None,
    topic_id: Annotated[str | None, typer.Option(metavar="ID", help="Which topic, when several had the name.")] = None,
    from_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="The first offset.")] = None,
    from_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From the first record this late: 2026-11-16T09:30:00Z, or milliseconds."),
    ] = None,
    to_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="Stop before this offset.")] = None,
    to_time: Annotated[str | None, typer.Option(metavar="TIME", help="Stop before the first record this late.")] = None,
    isolation: Annotated[Isolation, typer.Option(help="Which records of transactions.")] = "read_uncommitted",
    headers: Annotated[bool, typer.Option(help="With the column of headers.")] = True,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Pass over offsets that are missing, instead of failing.")
    ] = False,
    write_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the format, such as compression=zstd; may be repeated."),
    ] = None,
    commit_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Commit after about so much, such as 8g; 4g, or more for many cores."),
    ] = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Write a topic as files, each record once over all runs.

    PATH/partition=N/start_offset=M holds a range of offsets of a partition. A run exports what is not exported yet, be
    it before or behind the end of the last one, also when that was killed; there should be one at a time. Read PATH
    with any reader that passes over names beginning with an underscore.
    """
    if from_offset is not None and from_time is not None:
        raise typer.BadParameter("give one of them", param_hint="--from-offset and --from-time")
    if to_offset is not None and to_time is not None:
        raise typer.BadParameter("give one of them", param_hint="--to-offset and --to-time")
    names = [name.strip() for name in partition_by.split(",") if name.strip()]
    session = session_of(context)
    options = ExportOptions(
        session.service,
        format=format,
        partition_by=tuple(dict.fromkeys(name for name in names if name != "partition")),
        partitions=tuple(partition or ()),
        topic_id=topic_id,
        from_offset=from_offset,
        from_time_ms=parse_moment(from_time, option="--from-time"),
        to_offset=to_offset,
        to_time_ms=parse_moment(to_time, option="--to-time"),
        isolation=isolation,
        include_headers=headers,
        fail_on_data_loss=not skip_missing,
        wave_bytes=None if commit_bytes is None else parse_size("--commit-bytes", commit_bytes),
        write_options=parse_key_values(write_option, option="--write-option"),
    )
    check_options(options)
    with running_spark(session, name="export") as spark, progress_line(quiet=output is OutputFormat.JSON) as progress:
        summary = run_export(spark, topic, to, options=options, progress=progress)
    print_summary(output, document=summary.document(), text=summary.text())
