"""The data source `tiergate`: what Spark asks for first. Reading is done by the readers that it makes."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tiergate_client.errors import InvalidField, NotOffered
from tiergate_spark.batch_reader import batch_reader
from tiergate_spark.batch_rules import check_batch_options
from tiergate_spark.options import parse_options
from tiergate_spark.schema import columns_of, source_schema
from tiergate_spark.settling import settle
from tiergate_spark.shipping import show_to_streams
from tiergate_spark.stream_reader import StreamReader
from tiergate_spark.stream_rules import check_stream_options


class TiergateDataSource(DataSource):
    """Options and columns are those of Spark's Kafka source; `target` says where Tiergate is."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options)
        settle()

    @classmethod
    def name(cls) -> str:
        return "tiergate"

    def schema(self) -> StructType:
        return source_schema(include_headers=self._parsed.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        check_batch_options(self._parsed)
        return batch_reader(self._parsed, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - named by Spark
        try:
            check_stream_options(self._parsed)
            return StreamReader(self._parsed, columns_of(schema))
        except InvalidField as refusal:
            return StreamReader(self._parsed, (), refusal=refusal)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002
        raise _read_only()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002, N802
        raise _read_only()


def _read_only() -> NotOffered:
    return NotOffered(
        'format("tiergate") only reads; `tiergate-spark offload` copies segments of brokers into the tier'
    )


def register(spark: SparkSession) -> None:
    """Makes `format("tiergate")` known to a session; not needed where the package is installed on the driver."""
    spark.dataSource.register(TiergateDataSource)
    show_to_streams()
