"""`tiergate metadata watch`: changes of the metadata, as they happen."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tiergate_client.errors import (
    Cancelled,
    Exhausted,
    LogChanged,
    OffsetOutOfRange,
    TiergateError,
    TopicNotFound,
    Unavailable,
)
from tiergate_client.values import ConsistencyToken, MetadataChange, TopicIdPartition
from tiergate_server.cli.connection import Tiergate, connected
from tiergate_server.cli.metadata_events import LogEntry, MetadataEvent
from tiergate_server.cli.notices import warn
from tiergate_server.cli.session import Output, OutputFormat, session_of

if TYPE_CHECKING:
    from collections.abc import Generator

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


def watch(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only changes of this topic.")] = None,
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition of it.")
    ] = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Print every change of the metadata from now on, until interrupted; as JSON, one per line."""
    if topic is None and partition is not None:
        raise typer.BadParameter("name the TOPIC, too", param_hint="--partition")

    def show(event: MetadataEvent, token: ConsistencyToken) -> None:
        about = event.partition
        if topic in (None, about.topic) and partition in (None, about.partition):
            ((metadata_partition, offset),) = token.applied_offsets.items()
            sys.stdout.write(LogEntry.of(metadata_partition, offset, event).text(output))
            sys.stdout.flush()

    with connected(session_of(context)) as tiergate:
        if topic is not None and not _is_known(tiergate, topic, partition):
            subject = topic if partition is None else f"partition {partition} of {topic}"
            warn(f"watching; nothing is known of {subject} yet", output)
        Watch(tiergate, show, lambda message: warn(message, output)).run()


def _is_known(tiergate: Tiergate, topic: str, partition: int | None) -> bool:
    """Raises NotHosted when this replica would never see a change of it."""
    try:
        known = [summary.partition for summary in tiergate.metadata.list_partitions(topic=topic)]
    except TopicNotFound:
        return False
    if partition is None or any(found.partition == partition for found in known):
        return True
    for topic_id in {found.topic_id for found in known}:
        next(iter(tiergate.metadata.list_segments(TopicIdPartition(topic_id, partition, topic))), None)
    return False


class Watch:
    """Follows the changes for ever, over restarts of the plane."""

    def __init__(
        self,
        tiergate: Tiergate,
        show: Callable[[MetadataEvent, ConsistencyToken], None],
        tell: Callable[[str], None],
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tiergate = tiergate
        self._show = show
        self._tell = tell
        self._pause = pause
        self._seen: ConsistencyToken | None = None
        self._pause_s = 0.0
        self._has_worked = False
        self._is_away = False

    def run(self) -> None:
        """Ends with an exception: at once when the plane cannot be watched at all, later only when it refuses."""
        while True:
            try:
                self._follow()
            except (OffsetOutOfRange, LogChanged) as gap:
                self._tell(f"changes were missed ({gap.message}): list again with `tiergate ls`; going on from now")
                self._seen = None
            except (Unavailable, Exhausted, Cancelled) as trouble:
                self._wait(trouble)

    def _follow(self) -> None:
        changes = cast("Generator[MetadataChange]", self._tiergate.metadata.watch(after=self._seen))
        with closing(changes):
            for change in changes:
                if self._is_away:
                    self._tell("watching again")
                self._has_worked, self._is_away, self._pause_s = True, False, 0.0
                same_log = self._seen is not None and self._seen.log_id == change.token.log_id
                self._seen = self._seen.merged(change.token) if self._seen and same_log else change.token
                if change.event is not None:
                    self._show(change.event, change.token)

    def _wait(self, trouble: TiergateError) -> None:
        if not self._has_worked:  # the address may be wrong
            raise trouble
        if not self._is_away:
            self._tell(f"the metadata plane does not answer ({trouble.message}); trying again")
        self._is_away = True
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._pause(self._pause_s)
