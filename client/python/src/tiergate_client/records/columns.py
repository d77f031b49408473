"""The columns that records are turned into; filling them is not done here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa

from tiergate_client.errors import InvalidField

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
)

_FIELDS: Final[Mapping[str, Any]] = {
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "offset": pa.field("offset", pa.int64(), nullable=False),
    "timestamp": pa.field("timestamp", pa.int64(), nullable=False),
    "timestamp_type": pa.field("timestamp_type", pa.int32(), nullable=False),
    "headers": pa.field("headers", HEADERS_TYPE, nullable=False),
}

ALL_COLUMNS: Final = tuple(_FIELDS)
DEFAULT_COLUMNS: Final = tuple(name for name in ALL_COLUMNS if name != "headers")


def schema_of(columns: Sequence[str]) -> Any:
    """The Arrow schema of these columns, in this order. Timestamps are milliseconds, types those of TimestampType."""
    if not columns or len(set(columns)) != len(columns):
        raise InvalidField.of("columns", "name at least one column, and none of them twice")
    for name in columns:
        if name not in _FIELDS:
            near = get_close_matches(name, ALL_COLUMNS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ALL_COLUMNS)}"
            raise InvalidField.of("columns", f"{name!r} is no column of records; {hint}")
    return pa.schema([_FIELDS[name] for name in columns])
