"""How a damaged index is refused; what is in one is known by the module of each."""

from __future__ import annotations

from tiergate_client.errors import StoredDataCorrupt


def corrupt_index(index: str, fact: str) -> StoredDataCorrupt:
    return StoredDataCorrupt(
        f"The {index} can not be read: {fact}; restore the segment from another replica.",
        details={"file": index.replace(" ", "_")},
    )


def require_whole_entries(index: str, content: bytes, entry_bytes: int) -> None:
    if len(content) % entry_bytes:
        raise corrupt_index(index, f"its {len(content)} bytes are no multiple of {entry_bytes}")


def require_zeros(index: str, content: bytes, begin: int) -> None:
    """Behind its entries, the index of an active segment has zeros; anything else is an entry out of order."""
    if any(content[begin:]):
        raise corrupt_index(index, f"its entries do not ascend at byte {begin}")
