"""Texts of options as values; each refusal is one sentence that names the option."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from tiergate_client.errors import InvalidField

Choice = TypeVar("Choice", bound=str)

_MAX_LONG: Final = 2**63 - 1
_SIZE: Final = re.compile(r"([0-9]{1,19}) ?([kmg]?)i?b?", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HIGHEST_PORT: Final = 65535
_GRPC_SCHEMES: Final = ("dns:", "ipv4:", "ipv6:", "unix:", "xds:")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_number(option: str, text: str, *, minimum: int, maximum: int = _MAX_LONG) -> int:
    stripped = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", stripped) or not minimum <= int(stripped) <= maximum:
        bounds = f"from {minimum} on" if maximum == _MAX_LONG else f"from {minimum} to {maximum}"
        raise InvalidField.of(option, f"{text!r} is not a whole number {bounds}")
    return int(stripped)


def parse_time(option: str, text: str) -> int:
    """Milliseconds since the epoch."""
    try:
        return parse_number(option, text, minimum=0)
    except InvalidField as refusal:
        raise InvalidField(
            f"{refusal.message}: give milliseconds since the epoch, such as 1700000000000", details=refusal.details
        ) from None


def parse_address(option: str, text: str) -> str:
    """Of a plane: host:port, or a gRPC target with a scheme."""
    address = text.strip()
    match = _ADDRESS.fullmatch(address)
    if not address.startswith(_GRPC_SCHEMES) and (match is None or not 1 <= int(match[1]) <= _HIGHEST_PORT):
        scheme, separator, _ = address.partition("://")
        hint = f"; leave out {scheme}://" if separator else ""
        raise InvalidField.of(option, f"{text!r} is not host:port, such as 127.0.0.1:7400{hint}")
    return address


def parse_size(option: str, text: str) -> int:
    """Bytes, or with a unit of 1024: 32m, 64 MiB."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not 1 <= size <= _MAX_LONG:
        raise InvalidField.of(option, f"{text!r} is not a size; expected bytes or such as 32m")
    return size


def parse_boolean(option: str, text: str) -> bool:
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise InvalidField.of(option, f"{text!r} is neither true nor false")
    return lower == "true"


def parse_choice(option: str, text: str, choices: tuple[Choice, ...]) -> Choice:
    for choice in choices:
        if text.strip().lower() == choice:
            return choice
    raise InvalidField.of(option, f"{text!r} is none of {', '.join(choices)}")


def parse_words(option: str, text: str) -> tuple[str, ...]:
    """Words between commas, each once."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise InvalidField.of(option, f"{text!r} names nothing; give at least one name")
    return words


def parse_pattern(option: str, text: str) -> str:
    """A regular expression, which is kept as text."""
    pattern = text.strip()
    if not pattern:
        raise InvalidField.of(option, "the pattern is empty")
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidField.of(option, f"{text!r} is not a regular expression: {error}") from None
    return pattern
