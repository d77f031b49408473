"""What a Markdown page promises: its blocks of code and the words in its prose that are set as code."""

from __future__ import annotations

import re
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")


def code_blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order; "" is those without one."""
    text = page.read_text(encoding="utf-8")
    return [body for name, body in _FENCE.findall(text) if name == language]


def code_lines(page: Path) -> list[str]:
    """Every line of every block, and everything in backticks."""
    text = page.read_text(encoding="utf-8")
    blocks = [line for _, body in _FENCE.findall(text) for line in body.splitlines()]
    prose = _FENCE.sub("", text)
    return blocks + [" ".join(words.split()) for words in _INLINE.findall(prose)]
