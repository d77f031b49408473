"""The kinds of values that settings take: how each is read from TOML and from text, and what it accepts.

A kind raises ValueError whose text says what was expected; it does not know which key or source it reads for.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiergate_server.addresses import Address

_LOG_FORMS = (
    '"embedded:" (a file in the data directory), "embedded:/absolute/file", "kafka://host:port[,host:port…]" '
    'or "memory:" (nothing survives)'
)
_STORE_FORMS = '"file:" (a directory in the data directory), "file:///absolute/directory" or "s3://bucket[/prefix]"'
# A prefix is made of names that any object store keeps apart.
_S3_FORM = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}){0,5}")


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` is what the reference calls it; `accept` checks a value of a TOML type and returns what is kept."""

    name: str
    toml_types: tuple[type, ...]
    from_text: Callable[[str], Any]
    accept: Callable[[Any], Any]
    expected: str

    def read_text(self, text: str) -> Any:
        try:
            value = self.from_text(text)
        except ValueError:
            raise ValueError(self.expected) from None
        return self.accept(value)

    def read_toml(self, value: object) -> Any:
        # TOML's true would pass as the integer 1: no setting is a boolean.
        if isinstance(value, bool) or not isinstance(value, self.toml_types):
            raise ValueError(self.expected)  # noqa: TRY004 (one exception for everything that a kind refuses)
        return self.accept(value)


def integer(*, minimum: int = 1, maximum: int | None = None) -> Kind:
    bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    expected = f"expected a whole number {bounds}"

    def accept(value: int) -> int:
        if value < minimum or (maximum is not None and value > maximum):
            raise ValueError(expected)
        return value

    return Kind(name="integer", toml_types=(int,), from_text=int, accept=accept, expected=expected)


def seconds() -> Kind:
    expected = "expected a number of seconds above 0"

    def accept(value: float) -> float:
        if not math.isfinite(value) or value <= 0:
            raise ValueError(expected)
        return float(value)

    return Kind(name="seconds", toml_types=(int, float), from_text=float, accept=accept, expected=expected)


def choice(*options: str) -> Kind:
    expected = f"expected one of {', '.join(options)}"

    def accept(value: str) -> str:
        if value not in options:
            raise ValueError(expected)
        return value

    return Kind(name=" or ".join(options), toml_types=(str,), from_text=str, accept=accept, expected=expected)


def address(*, if_empty: str | None = None, any_port: bool = True) -> Kind:
    """`if_empty` says what the empty text means (without it, it is refused); `any_port` allows port 0."""
    hint = "" if if_empty is None else f', or "" ({if_empty})'

    def accept(value: str) -> str:
        if value == "" and if_empty is not None:
            return value
        try:
            parsed = Address.parse(value)
        except ValueError as error:
            raise ValueError(f"{error}{hint}") from None
        if parsed.port == 0 and not any_port:
            raise ValueError(f"expected a port that clients can connect to, not 0{hint}")
        return str(parsed)

    expected = f"expected host:port as text{hint}"
    return Kind(name="host:port", toml_types=(str,), from_text=str, accept=accept, expected=expected)


def directory() -> Kind:
    expected = "expected the path of a directory"

    def accept(value: str) -> Path:
        if value == "":
            raise ValueError(expected)
        try:
            return Path(value).expanduser().absolute()
        except RuntimeError:
            raise ValueError(f"{expected}, and the home directory that ~ stands for is unknown") from None

    return Kind(name="directory", toml_types=(str,), from_text=str, accept=accept, expected=expected)


def text(*, expected: str, pattern: str) -> Kind:
    def accept(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(expected)
        return value

    return Kind(name="text", toml_types=(str,), from_text=str, accept=accept, expected=expected)


def table() -> Kind:
    """Names and values that are passed on as they are; as text, a JSON object."""
    expected = 'expected names and values, as text such as {"security.protocol": "SSL"}'

    def accept(value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise ValueError(expected)  # noqa: TRY004 (one exception for everything that a kind refuses)
        flat = dict(_flattened(value))
        return {
            name: str(setting).lower() if isinstance(setting, bool) else str(setting) for name, setting in flat.items()
        }

    return Kind(name="table", toml_types=(dict,), from_text=json.loads, accept=accept, expected=expected)


def rates() -> Kind:
    """Topics and a number for each; as text, a JSON object."""
    expected = 'expected topics with whole numbers of at least 0, as text such as {"orders": 1000000}'

    def accept(value: object) -> dict[str, int]:
        if not isinstance(value, dict):
            raise ValueError(expected)  # noqa: TRY004 (one exception for everything that a kind refuses)
        flat = dict(_flattened(value))
        if any(isinstance(rate, bool) or not isinstance(rate, int) or rate < 0 for rate in flat.values()):
            raise ValueError(expected)
        return flat

    return Kind(name="table", toml_types=(dict,), from_text=json.loads, accept=accept, expected=expected)


def _flattened(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML reads security.protocol as a table in a table."""
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flattened(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, inner


def metadata_log() -> Kind:
    def accept(value: str) -> str:
        if value not in {"embedded:", "memory:"} and not re.match(r"embedded:/.|kafka://[^/]+$", value):
            raise ValueError(f"expected {_LOG_FORMS}")
        return value

    return Kind(name="URI", toml_types=(str,), from_text=str, accept=accept, expected=f"expected {_LOG_FORMS}")


def segments_store() -> Kind:
    """A store, or a table of them by name; as text, a table is a JSON object."""
    expected = f"expected {_STORE_FORMS}, or several by names of a-z, 0-9, - and _, as text such as "
    expected += '{"hot": "file:///fast", "cold": "s3://bucket"}'

    def accept_one(value: object) -> str:
        if not isinstance(value, str) or not (
            value == "file:" or re.match(r"file:///.", value) or _S3_FORM.fullmatch(value)
        ):
            raise ValueError(expected)
        return value

    def accept(value: object) -> str | dict[str, str]:
        if not isinstance(value, dict):
            return accept_one(value)
        if not value or not all(re.fullmatch(r"[a-z0-9_-]{1,32}", name) for name in value):
            raise ValueError(expected)
        return {name: accept_one(uri) for name, uri in value.items()}

    def from_text(text: str) -> Any:
        return json.loads(text) if text.lstrip().startswith("{") else text

    return Kind(name="URI or table", toml_types=(str, dict), from_text=from_text, accept=accept, expected=expected)
