"""Why the value of a log record is not an event. What a reader does about it is not decided here."""

from __future__ import annotations


class UnknownEvent(Exception):
    """An empty value, or a kind or version of event that this release does not know: a reader skips and counts it."""


class CorruptEvent(Exception):
    """A frame that can not be read: what follows it in the log can not be trusted to be applied in order."""
