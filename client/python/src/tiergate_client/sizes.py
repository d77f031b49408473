"""Sizes for people to read. How sizes are typed is a matter of those who ask for them."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size_bytes /= 1024
        if size_bytes < 1000 or unit == "TiB":
            break
    return f"{size_bytes:.1f} {unit}"
