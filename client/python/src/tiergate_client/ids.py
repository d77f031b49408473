"""Ids as Kafka has them: 16 bytes, shown as 22 characters of base64url without padding.

Topic, segment and log ids are types of their own, since they are easily swapped.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from typing import Self

from tiergate_client.errors import InvalidField

_ID_BYTES = 16


@dataclass(frozen=True, slots=True, order=True)
class KafkaUuid:
    """16 bytes: the high 64 bits, then the low 64 bits, big-endian."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != _ID_BYTES:
            raise InvalidField.of("id", f"an id has {_ID_BYTES} bytes, not {len(self.raw)}")

    @classmethod
    def random(cls) -> Self:
        """A new id. Like Kafka's, its text never begins with a dash, which a shell would take for a flag."""
        while True:
            candidate = cls(secrets.token_bytes(_ID_BYTES))
            if not str(candidate).startswith("-"):
                return candidate

    @classmethod
    def from_text(cls, text: str) -> Self:
        try:
            parsed = cls(base64.b64decode(text + "==", altchars=b"-_", validate=True))
        except (ValueError, InvalidField):
            raise InvalidField.of("id", f"{text!r} is not an id: expected 22 characters of base64url") from None
        if str(parsed) != text:  # the last character has four spare bits: only one spelling is the id's
            raise InvalidField.of("id", f"{text!r} is not an id: did you mean {parsed}?")
        return parsed

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.raw).decode("ascii").rstrip("=")


class TopicId(KafkaUuid):
    """Names one incarnation of a topic."""

    __slots__ = ()


class SegmentId(KafkaUuid):
    """Names one attempt to copy a segment."""

    __slots__ = ()


class LogId(KafkaUuid):
    """Names one incarnation of a metadata log."""

    __slots__ = ()
