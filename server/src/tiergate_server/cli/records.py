"""`tiergate records`: the records of a topic, from an offset or a time on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from tiergate_client.errors import OffsetOutOfRange
from tiergate_client.ids import TopicId
from tiergate_server.cli.connection import connected
from tiergate_server.cli.moments import parse_moment
from tiergate_server.cli.record_printer import RecordPrinter
from tiergate_server.cli.session import Output, OutputFormat, session_of
from tiergate_server.cli.topic_choice import chosen_partitions

_RECORDS_FOR_PEOPLE = 20

Isolation = Literal["read_uncommitted", "read_committed"]


def records(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Whose records.", show_default=False)],
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition.")
    ] = None,
    from_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="The first offset.")] = None,
    from_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="From the first record this late: 2026-11-16T09:30:00Z, or milliseconds."),
    ] = None,
    to_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="Stop before this offset.")] = None,
    to_time: Annotated[str | None, typer.Option(metavar="TIME", help="Stop before the first record this late.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Records at most; {_RECORDS_FOR_PEOPLE}, or all of them as JSON."),
    ] = None,
    isolation: Annotated[Isolation, typer.Option(help="Which records of transactions.")] = "read_uncommitted",
    topic_id: Annotated[str | None, typer.Option(metavar="ID", help="Which topic, when several had the name.")] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Pass over offsets that are missing, instead of failing.")
    ] = False,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Print records by partition and offset; as JSON, one per line, with keys and values in base64."""
    if from_offset is not None and from_time is not None:
        raise typer.BadParameter("give one of them", param_hint="--from-offset and --from-time")
    if to_offset is not None and to_time is not None:
        raise typer.BadParameter("give one of them", param_hint="--to-offset and --to-time")
    start_time_ms = None if from_time is None else parse_moment(from_time, option="--from-time")
    stop_time_ms = None if to_time is None else parse_moment(to_time, option="--to-time")
    _require_order(from_offset, to_offset, "--from-offset", "--to-offset", text=f"{to_offset} is below {from_offset}")
    _require_order(start_time_ms, stop_time_ms, "--from-time", "--to-time", text=f"{to_time} is before {from_time}")
    wanted_id = None if topic_id is None else TopicId.from_text(topic_id)
    printer = RecordPrinter(output, _most(limit, output))
    with connected(session_of(context)) as tiergate, _in_words_of_options():
        chosen = chosen_partitions(tiergate, topic, partition=partition, topic_id=wanted_id)
        if len(chosen) > 1 and (from_offset is not None or to_offset is not None):
            raise typer.BadParameter(
                f"{topic} has {len(chosen)} partitions, each with offsets of its own: name one with -p",
                param_hint="--from-offset and --to-offset",
            )
        for summary in chosen:
            if printer.left == 0:
                printer.leave_partition()
                break
            with tiergate.records.read_records(
                topic,
                summary.partition.partition,
                topic_id=summary.partition.topic_id,
                start_offset=from_offset,
                start_time_ms=start_time_ms,
                stop_offset=to_offset,
                stop_time_ms=stop_time_ms,
                isolation=isolation,
                max_records=printer.left,
                skip_missing=skip_missing,
            ) as stream:
                printer.print_partition(summary.partition.partition, stream, from_offset=from_offset)
    printer.finish(topic)


def _require_order(start: int | None, stop: int | None, start_option: str, stop_option: str, *, text: str) -> None:
    if start is not None and stop is not None and stop < start:
        raise typer.BadParameter(
            f"{text}, so that nothing lies between them: exchange them", param_hint=f"{start_option} and {stop_option}"
        )


@contextmanager
def _in_words_of_options() -> Iterator[None]:
    """The way out has another name as an option than it has on the wire."""
    try:
        yield
    except OffsetOutOfRange as error:
        message = error.message.replace("(skip_missing)", "(--skip-missing)")
        raise OffsetOutOfRange(message, details=error.details) from error


def _most(limit: int | None, output: OutputFormat) -> int | None:
    if limit is not None or output is OutputFormat.JSON:
        return limit
    return _RECORDS_FOR_PEOPLE
