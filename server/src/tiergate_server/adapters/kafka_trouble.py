"""What Kafka's clients complain about: remembered for error messages, logged once in a while for each kind."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

_logger = logging.getLogger(__name__)

_REPEAT_AFTER_S = 60.0
_KEPT = 20
_CREDENTIALS = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
_VAGUE = frozenset({"_ALL_BROKERS_DOWN", "_TIMED_OUT"})


@dataclass(frozen=True, slots=True)
class Trouble:
    kind: str
    text: str
    noticed_at: float

    @property
    def is_about_credentials(self) -> bool:
        return self.kind in _CREDENTIALS


class Troubles:
    """Shared by the clients of one log."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._recent: list[Trouble] = []
        self._logged_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, kind: str, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._recent = [*self._recent[-_KEPT:], Trouble(kind, text, now)]
            is_due = now - self._logged_at.get(kind, -_REPEAT_AFTER_S) >= _REPEAT_AFTER_S
            if is_due:
                self._logged_at[kind] = now
        if is_due:
            _logger.warning("%s: %s (%s); the clients keep trying", self._subject, text, kind)

    def since(self, moment: float) -> Trouble | None:
        """The newest trouble after a moment; what the credentials or the address are to blame for comes first."""
        with self._lock:
            recent = [trouble for trouble in self._recent if trouble.noticed_at >= moment]
        return max(
            recent,
            key=lambda trouble: (trouble.is_about_credentials, trouble.kind not in _VAGUE, trouble.noticed_at),
            default=None,
        )
