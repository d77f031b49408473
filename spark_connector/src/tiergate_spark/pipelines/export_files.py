"""What an export asks of a file system; `HadoopFiles` is the real one, and tests use plain directories."""

from __future__ import annotations

from typing import Protocol


class Files(Protocol):
    """Paths are texts. Only `rename` is expected to happen in one step."""

    def children(self, path: str) -> list[str]:
        """Names, sorted; none when the directory does not exist."""
        ...

    def read(self, path: str) -> bytes | None:
        """None when the file does not exist."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Replaces what is there; makes the directories above it."""
        ...

    def make_directory(self, path: str) -> None:
        """With those above it; one that is there is fine."""
        ...

    def delete(self, path: str) -> None:
        """With all that is in it; absent is fine."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Raises FileExistsError when the target is there, FileNotFoundError when the source is not."""
        ...
