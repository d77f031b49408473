"""How a setting is declared as a field of a section's dataclass. Which settings there are is the schema's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeVar

from tiergate_server.config.kinds import Kind

T = TypeVar("T")


def setting(default: T, *, kind: Kind, meaning: str) -> T:
    return field(default=default, metadata={"kind": kind, "meaning": meaning})


def table_setting(*, kind: Kind, meaning: str) -> Mapping[str, Any]:
    """One that is empty unless something is given."""
    made: Mapping[str, Any] = field(default_factory=dict, metadata={"kind": kind, "meaning": meaning, "default": "{}"})
    return made
