"""`tiergate get`: brings a file of a segment back."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from crc32c import crc32c

from tiergate_client import Access
from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import SegmentFile
from tiergate_client.sizes import size_text
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.console import stderr_console, stdout_console
from tiergate_server.cli.file_output import STDOUT, opened_output
from tiergate_server.cli.session import OutputFormat, SummaryFormat, print_json, session_of
from tiergate_server.cli.show import SegmentArgument
from tiergate_server.cli.transfers import transfer_progress


class What(enum.Enum):
    """The files of a segment, as people name them."""

    LOG = "log"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    PRODUCER_SNAPSHOT = "producer-snapshot"
    LEADER_EPOCH = "leader-epoch"
    TXN_INDEX = "txn-index"

    @property
    def file(self) -> SegmentFile:
        return SegmentFile[self.name]


def get(
    context: typer.Context,
    segment: SegmentArgument,
    *,
    destination: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - is stdout.", show_default=False)
    ],
    what: Annotated[What, typer.Option(help="Which file.")] = What.LOG,
    offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="First byte of the log.")] = None,
    length: Annotated[int | None, typer.Option(metavar="N", min=1, help="Bytes of the log, at most.")] = None,
    access: Annotated[
        Access,
        typer.Option(help="Through the service, straight from the store, or what works."),
    ] = "service",
    summary: SummaryFormat = OutputFormat.HUMAN,
) -> None:
    """Get a file of a segment, or a part of its log."""
    if what is not What.LOG and (offset is not None or length is not None):
        raise typer.BadParameter("only a part of the log can be asked for", param_hint="--offset and --length")
    if summary is OutputFormat.JSON and destination == STDOUT:
        raise typer.BadParameter("stdout holds the data already; write to a file", param_hint="--format json")
    segment_id = SegmentId.from_text(segment)
    session = session_of(context)
    session.access = access
    with connected(session) as tiergate:
        metadata = tiergate.metadata.get_segment(segment_id)
        if what is What.LOG:
            size, checksum = _get_log(tiergate, metadata, destination, offset or 0, length)
        else:
            size, checksum = _get_index(tiergate, metadata, destination, what.file)
    if summary is OutputFormat.JSON:
        print_json(
            {
                "segment_id": segment,
                "what": what.value,
                "file": destination,
                "size_bytes": size,
                "crc32c": f"{checksum:08x}",
            }
        )
    elif destination != STDOUT:
        stdout_console().print(f"{what.value} of {segment}: {size_text(size)} in {destination}", markup=False)


def _get_index(
    tiergate: Tiergate, metadata: RemoteLogSegmentMetadata, destination: str, file: SegmentFile
) -> tuple[int, int]:
    content = tiergate.storage.fetch_index(metadata, file)
    with opened_output(destination) as output:
        output.write(content)
    return len(content), crc32c(content)


def _get_log(
    tiergate: Tiergate, metadata: RemoteLogSegmentMetadata, destination: str, offset: int, length: int | None
) -> tuple[int, int]:
    expected = max(0, metadata.segment_size_bytes - offset)
    size = checksum = 0
    with (
        tiergate.storage.fetch_segment(metadata, offset=offset, length=length) as stream,
        opened_output(destination) as output,
        _progress(expected if length is None else min(expected, length)) as advance,
    ):
        for piece in stream:
            output.write(piece)
            checksum = crc32c(piece, checksum)
            size += len(piece)
            advance(len(piece))
    return size, checksum


@contextmanager
def _progress(total_bytes: int) -> Iterator[Callable[[int], None]]:
    console = stderr_console()
    if not console.is_terminal:
        yield lambda _: None
        return
    with transfer_progress(console) as progress:
        task = progress.add_task("log", total=total_bytes)
        yield lambda size: progress.advance(task, size)
