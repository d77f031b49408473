"""An outage of one call: what a function is away for once, and answers from then on."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tiergate_client.errors import Unavailable


def away_once(monkeypatch: pytest.MonkeyPatch, module: ModuleType, *names: str) -> None:
    """Functions that a module calls raise Unavailable the first time."""
    for name in names:
        monkeypatch.setattr(module, name, _away_once(getattr(module, name)))


def _away_once(function: Any) -> Any:
    failures = [Unavailable("the metadata plane is away")]

    def called(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return function(*given)

    return called
