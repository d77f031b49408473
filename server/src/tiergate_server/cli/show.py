"""`tiergate show`: everything about one segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tiergate_client.errors import SegmentNotFound
from tiergate_client.ids import SegmentId
from tiergate_client.segment_files import SegmentManifest
from tiergate_client.sizes import size_text
from tiergate_client.values import RemoteLogSegmentMetadata
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.console import (
    Column,
    offsets_text,
    print_facts,
    print_table,
    state_text,
    stdout_console,
    time_text,
)
from tiergate_server.cli.documents import manifest_document, store_name, stored_segment_document
from tiergate_server.cli.session import Output, OutputFormat, print_json, session_of

if TYPE_CHECKING:
    from rich.console import Console

SegmentArgument = Annotated[
    str, typer.Argument(metavar="SEGMENT", help="Id of the segment, as `tiergate ls` shows it.")
]


def show(context: typer.Context, segment: SegmentArgument, *, output: Output = OutputFormat.HUMAN) -> None:
    """Show a segment: its metadata, and what is stored of it."""
    segment_id = SegmentId.from_text(segment)
    with connected(session_of(context)) as tiergate:
        metadata = tiergate.metadata.get_segment(segment_id)
        manifest = _manifest(tiergate, metadata)
    if output is OutputFormat.JSON:
        print_json(
            {
                "segment": stored_segment_document(metadata),
                "manifest": None if manifest is None else manifest_document(manifest),
            }
        )
        return
    console = stdout_console()
    _print_metadata(console, metadata)
    _print_manifest(console, manifest)


def _manifest(tiergate: Tiergate, metadata: RemoteLogSegmentMetadata) -> SegmentManifest | None:
    try:
        return tiergate.storage.get_manifest(metadata)
    except SegmentNotFound:
        return None  # normal before a copy is finished and after a deletion has begun


def _print_metadata(console: Console, metadata: RemoteLogSegmentMetadata) -> None:
    epochs = (f"{epoch} from offset {start}" for epoch, start in metadata.segment_leader_epochs)
    custom = metadata.custom_metadata
    print_facts(
        console,
        [
            ("segment", str(metadata.segment_id)),
            ("state", state_text(metadata.state)),
            ("topic", f"{metadata.partition.topic}, id {metadata.partition.topic_id}"),
            ("partition", str(metadata.partition.partition)),
            ("offsets", offsets_text(metadata.start_offset, metadata.end_offset)),
            ("leader epochs", ", ".join(epochs)),
            ("size", f"{size_text(metadata.segment_size_bytes)} ({metadata.segment_size_bytes} bytes)"),
            ("newest record", time_text(metadata.max_timestamp_ms)),
            ("aborted transactions", "none" if metadata.txn_index_empty else "possible"),
            ("last change", f"{time_text(metadata.event_timestamp_ms)}, by broker {metadata.broker_id}"),
            ("store", store_name(metadata) or "unknown"),
            ("custom metadata", "none" if custom is None else custom.hex() or "empty"),
        ],
    )


def _print_manifest(console: Console, manifest: SegmentManifest | None) -> None:
    console.print()
    if manifest is None:
        console.print("Nothing is stored of it.")
        return
    rows = [
        (file.value.replace("_", "-"), str(checksum.size_bytes), f"{checksum.crc32c:08x}")
        for file, checksum in manifest.files.items()
    ]
    print_table(console, (Column("FILE"), Column("BYTES", "right"), Column("CRC32C")), rows)
    console.print(f"upload {manifest.upload_digest}", style="dim")
