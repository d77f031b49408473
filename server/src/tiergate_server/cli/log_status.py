"""How the metadata plane stands to its log, as `tiergate status` tells it: what it hosts, cannot read, may write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiergate_client import Assignment
from tiergate_client.errors import TiergateError
from tiergate_server.cli.connection import ServerInfo, Tiergate
from tiergate_server.cli.console import styled
from tiergate_server.metadata.replica import as_ranges

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class LogStatus:
    follows: bool
    assignment: Assignment

    @property
    def hosts_everything(self) -> bool:
        return len(self.assignment.hosted) == self.assignment.partition_count

    @property
    def hosted(self) -> str:
        return as_ranges(partition.metadata_partition for partition in self.assignment.hosted)

    @property
    def corrupt(self) -> dict[int, int]:
        """Metadata partition -> the offset from which on it cannot be read."""
        return {
            partition.metadata_partition: partition.corrupt_at
            for partition in self.assignment.hosted
            if partition.corrupt_at is not None
        }

    def document(self) -> dict[str, Any]:
        return {
            "follows": self.follows,
            "partition_count": self.assignment.partition_count,
            "hosted": [partition.metadata_partition for partition in self.assignment.hosted],
            "corrupt": [{"metadata_partition": number, "offset": offset} for number, offset in self.corrupt.items()],
        }

    def facts(self) -> list[tuple[str, str | Text]]:
        """What is out of the ordinary."""
        facts: list[tuple[str, str | Text]] = []
        if self.follows:
            facts.append(("metadata mode", "follows the log of another service, writes are refused"))
        if not self.hosts_everything:
            count = len(self.assignment.hosted)
            facts.append(("hosts", f"{count} of {self.assignment.partition_count} metadata partitions: {self.hosted}"))
        if self.corrupt:
            places = ", ".join(f"{number} from offset {offset}" for number, offset in self.corrupt.items())
            facts.append(("unreadable", styled(f"metadata partition {places}; see metadata.skip", "red")))
        return facts


def log_status(tiergate: Tiergate, info: ServerInfo | None) -> LogStatus | None:
    """None when the plane does not say."""
    try:
        return LogStatus("follow" in (info.features if info else ()), tiergate.admin.get_assignment())
    except TiergateError:
        return None
