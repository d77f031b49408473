"""The columns of a DataFrame: those of Spark's Kafka source, or fewer where the user gives a schema.

How they are filled is in `rows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tiergate_client.errors import InvalidField

HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

COLUMN_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
_MAY_BE_NULL: Final = frozenset(("key", "value", "headers"))
_BY_LOWER_CASE: Final[Mapping[str, str]] = {name.lower(): name for name in COLUMN_TYPES}


@dataclass(frozen=True, slots=True)
class Column:
    """One of COLUMN_TYPES under the name that the user gives it: names differ in case at most."""

    name: str
    content: str
    is_nullable: bool = True


def source_schema(*, include_headers: bool) -> StructType:
    """As Spark's Kafka source has it."""
    names = [name for name in COLUMN_TYPES if name != "headers" or include_headers]
    return StructType([StructField(name, COLUMN_TYPES[name]) for name in names])


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema, which may name fewer than there are, in any order. Raises InvalidField."""
    columns = tuple(map(_column, schema.fields))
    if not columns:
        raise InvalidField.of("schema", "name at least one column")
    if len({column.content for column in columns}) != len(columns):
        raise InvalidField.of("schema", "name no column twice")
    return columns


def _column(field: StructField) -> Column:
    content = _BY_LOWER_CASE.get(field.name.lower())
    if content is None:
        near = get_close_matches(field.name.lower(), _BY_LOWER_CASE, n=1, cutoff=0.7)
        hint = f"did you mean {_BY_LOWER_CASE[near[0]]!r}?" if near else f"there are {', '.join(COLUMN_TYPES)}"
        raise InvalidField.of("schema", f"{field.name!r} is no column of records; {hint}")
    expected = COLUMN_TYPES[content]
    if field.dataType != expected:
        given = field.dataType.simpleString()
        raise InvalidField.of("schema", f"{field.name} is {expected.simpleString()}, not {given}; cast it afterwards")
    if not field.nullable and content in _MAY_BE_NULL:
        raise InvalidField.of("schema", f"{field.name} can be null; leave out NOT NULL")
    return Column(field.name, content, field.nullable)
