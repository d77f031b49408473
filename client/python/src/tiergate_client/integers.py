"""Range checks of the fixed-width integers that Kafka's formats and the wire carry."""

from __future__ import annotations

from tiergate_client.errors import InvalidField

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def require_int32(field: str, value: int, *, minimum: int = -(2**31)) -> None:
    if not minimum <= value <= INT32_MAX:
        raise _outside(field, value, minimum, INT32_MAX)


def require_int64(field: str, value: int, *, minimum: int = -(2**63)) -> None:
    if not minimum <= value <= INT64_MAX:
        raise _outside(field, value, minimum, INT64_MAX)


def _outside(field: str, value: int, minimum: int, maximum: int) -> InvalidField:
    return InvalidField.of(field, f"{value} is not between {minimum} and {maximum}")
