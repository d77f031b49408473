"""`tiergate sample`: a partition directory to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiergate_client.local_log.partition_directory import PartitionDirectory
from tiergate_client.sizes import size_text
from tiergate_server.cli.console import counted, print_facts, stdout_console
from tiergate_server.cli.session import Output, OutputFormat, print_json
from tiergate_server.kafka_files.sample import (
    LARGEST_SEGMENT_BYTES,
    SMALLEST_SEGMENT_BYTES,
    SamplePartition,
    write_sample,
)


def sample(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write DIR/<topic>-0.")],
    *,
    topic: Annotated[str, typer.Option(metavar="NAME", help="Name of the topic.")] = "orders",
    segments: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Rolled segments; an active one follows.")
    ] = 4,
    segment_bytes: Annotated[
        int,
        typer.Option(
            metavar="N", min=SMALLEST_SEGMENT_BYTES, max=LARGEST_SEGMENT_BYTES, help="Size at which a segment rolls."
        ),
    ] = 1024 * 1024,
    seed: Annotated[int, typer.Option(metavar="N", help="Another one gives other records and another id.")] = 0,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Write a sample Kafka partition directory.

    As a broker would leave it: real record batches, rolled segments with their indexes, two leader epochs, a committed
    and an aborted transaction.
    """
    written = write_sample(directory, topic=topic, segments=segments, segment_bytes=segment_bytes, seed=seed)
    size_bytes = PartitionDirectory.open(written.directory).rolled_size_bytes
    if output is OutputFormat.JSON:
        print_json(
            {
                "directory": str(written.directory),
                "topic": written.partition.topic,
                "topic_id": str(written.partition.topic_id),
                "partition": written.partition.partition,
                "rolled_segment_count": written.rolled_segment_count,
                "rolled_size_bytes": size_bytes,
                "end_offset": written.end_offset,
            }
        )
    else:
        _print(written, size_bytes)


def _print(written: SamplePartition, size_bytes: int) -> None:
    rolled = counted(written.rolled_segment_count, "rolled segment")
    print_facts(
        stdout_console(),
        [
            ("directory", str(written.directory)),
            ("topic id", str(written.partition.topic_id)),
            ("offsets", f"0 - {written.end_offset}"),
            ("holds", f"{rolled} ({size_text(size_bytes)}) and an active one"),
            ("next", f"tiergate put {written.directory}"),
        ],
    )
