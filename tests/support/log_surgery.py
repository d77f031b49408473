"""What befalls the log of a broker that is down: its tail is lost, or its segments are cut otherwise.

The broker makes the indexes and snapshots that are then missing when it starts. Batches are never changed here.
"""

from __future__ import annotations

from pathlib import Path

from tiergate_client.records import scan_batches

_INDEXES = (".index", ".timeindex", ".txnindex")


def lose_tail(directory: Path, *, segments: int) -> int:
    """Cuts the log in the middle of a segment, so many before the last one; returns the offset that comes next.

    This is what an unclean leader election leaves: the records behind are gone, and other ones take their offsets.
    """
    logs = _logs(directory)
    kept, lost = logs[-1 - segments], logs[-segments:]
    headers = scan_batches(kept.read_bytes())
    border = headers[len(headers) // 2]
    with kept.open("r+b") as log:
        log.truncate(border.position)
    _remove_indexes(kept)
    for log_file in lost:
        _remove(log_file)
    for snapshot in directory.glob("*.snapshot"):
        if int(snapshot.stem) > border.base_offset:
            snapshot.unlink()
    return border.base_offset


def join_segments(directory: Path) -> None:
    """Joins the second with the third, the fourth with the fifth and so on, but never the active one."""
    rolled = _logs(directory)[1:-1]
    for first, second in zip(rolled[::2], rolled[1::2], strict=False):
        with first.open("ab") as log:
            log.write(second.read_bytes())
        _remove_indexes(first)
        _remove(second)
        second.with_suffix(".snapshot").unlink(missing_ok=True)


def _logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def _remove(log: Path) -> None:
    _remove_indexes(log)
    log.unlink()


def _remove_indexes(log: Path) -> None:
    for suffix in _INDEXES:
        log.with_suffix(suffix).unlink(missing_ok=True)
