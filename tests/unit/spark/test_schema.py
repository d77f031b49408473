"""The schema is that of Spark's Kafka source; a user's own may be narrower, never another."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tiergate_client.errors import InvalidField
from tiergate_spark.rows import ARROW_TYPES
from tiergate_spark.schema import COLUMN_TYPES, Column, columns_of, source_schema


def refusal(*fields: StructField) -> str:
    with pytest.raises(InvalidField) as caught:
        columns_of(StructType(list(fields)))
    return caught.value.message


def test_schema_is_that_of_kafkas_source() -> None:
    plain = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    assert source_schema(include_headers=False) == StructType(plain)
    assert source_schema(include_headers=True) == StructType([*plain, StructField("headers", ArrayType(header))])


def test_arrow_types_are_those_that_spark_checks() -> None:
    expected = to_arrow_schema(source_schema(include_headers=True), timezone="UTC")
    assert {field.name: field.type for field in expected} == dict(ARROW_TYPES)
    assert list(ARROW_TYPES) == list(COLUMN_TYPES)


def test_narrower_schema_keeps_its_order_and_its_spelling() -> None:
    schema = StructType([StructField("OFFSET", LongType(), nullable=False), StructField("value", BinaryType())])
    assert columns_of(schema) == (Column("OFFSET", "offset", is_nullable=False), Column("value", "value"))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("ofset", LongType()), "schema: 'ofset' is no column of records; did you mean 'offset'?"),
        (StructField("timestamptyp", LongType()), "schema: 'timestamptyp' is no column of records; did you mean"),
        (StructField("price", LongType()), "schema: 'price' is no column of records; there are key, value, topic,"),
        (StructField("offset", IntegerType()), "schema: offset is bigint, not int; cast it afterwards"),
        (StructField("value", StringType()), "schema: value is binary, not string; cast it afterwards"),
        (StructField("timestamp", TimestampNTZType()), "schema: timestamp is timestamp, not timestamp_ntz; cast"),
        (StructField("key", BinaryType(), nullable=False), "schema: key can be null; leave out NOT NULL"),
        (
            StructField("headers", ArrayType(StringType())),
            "schema: headers is array<struct<key:string,value:binary>>, not array<string>; cast it afterwards",
        ),
    ],
)
def test_other_columns_are_refused(field: StructField, message: str) -> None:
    assert refusal(field).startswith(message)


def test_column_that_is_named_twice_is_refused() -> None:
    assert refusal(StructField("key", BinaryType()), StructField("Key", BinaryType())) == (
        "schema: name no column twice"
    )


def test_schema_without_columns_is_refused() -> None:
    assert refusal() == "schema: name at least one column"
