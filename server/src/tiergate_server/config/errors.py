"""What a configuration that cannot work is refused with."""

from __future__ import annotations


class ConfigError(Exception):
    """The configuration cannot work; the text is one sentence for the person who wrote it."""
