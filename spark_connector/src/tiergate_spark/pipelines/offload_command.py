"""`tiergate-spark offload`: the pipeline of `offload.py` as a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from tiergate_client.ids import TopicId
from tiergate_spark.pipelines.failures import PipelineFailed
from tiergate_spark.pipelines.offload import OffloadOptions, open_directories
from tiergate_spark.pipelines.offload import offload as run_offload
from tiergate_spark.pipelines.progress import progress_line
from tiergate_spark.pipelines.session import Output, OutputFormat, print_summary, running_spark, session_of, warn

_MOST_NAMED: Final = 5


def offload(
    context: typer.Context,
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Kafka partition directories, such as data/orders-0.", show_default=False),
    ],
    *,
    topic_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Instead of the one in partition.metadata.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Instead of the one in the directory's name.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Instead of the one in the directory's name."),
    ] = None,
    broker_id: Annotated[int, typer.Option(metavar="N", help="Broker in whose name segments are written.")] = -1,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Copy the rolled segments of Kafka partition directories to the tier, each in a task of Spark's.

    The driver and all executors must see the directories under the same path. The active segment stays behind. A
    segment is skipped when a finished one is there with the same offsets, leader epochs and log. Run it again after a
    crash: it goes on where it was.
    """
    if partition is not None and len(directories) > 1:
        raise typer.BadParameter("it fits one directory only", param_hint="--partition")
    session = session_of(context)
    options = OffloadOptions(
        session.service,
        topic_id=None if topic_id is None else TopicId.from_text(topic_id),
        topic=topic,
        partition=partition,
        broker_id=broker_id,
    )
    open_directories(directories, options)  # it is told sooner what is wrong with them
    with running_spark(session, name="offload") as spark, progress_line(quiet=output is OutputFormat.JSON) as progress:
        summary = run_offload(spark, directories, options=options, progress=progress)
    for warning in summary.warnings:
        warn(session, warning)
    print_summary(output, document=summary.document(), text=summary.text())
    failed = summary.with_result("failed")
    if failed:
        named = [str(one.failure) for one in failed[:_MOST_NAMED]]
        more = [f"and {len(failed) - _MOST_NAMED} more, which -o json lists"] if len(failed) > _MOST_NAMED else []
        raise PipelineFailed(
            f"{len(failed)} of {len(summary.segments)} segments were not copied: {'; '.join(named + more)}"
        )
