"""The data source by which a wave of an export is read: all of its ranges, or the job fails.

`format("tiergate")` reads what there is of the offsets that it is asked for: less when retention, or a new leader, has
changed the tier since the wave was planned, and a user accepts that. A range is committed as a whole instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tiergate_spark.batch_reader import BatchReader
from tiergate_spark.batch_rules import check_batch_options
from tiergate_spark.schema import columns_of
from tiergate_spark.settling import settle
from tiergate_spark.source import TiergateDataSource


class WaveSource(TiergateDataSource):
    """With the options of `format("tiergate")`, which must name where each partition begins and ends."""

    @classmethod
    def name(cls) -> str:
        return "tiergate_wave"

    def reader(self, schema: StructType) -> DataSourceReader:
        check_batch_options(self._parsed)
        return WaveReader(self._parsed, columns_of(schema))


class WaveReader(BatchReader):
    """What it holds is sent to executors: the heavier modules are imported where they are used."""

    def partitions(self) -> Sequence[InputPartition]:
        from tiergate_spark.pipelines.export_wave import plan_wave  # noqa: PLC0415 - see the class

        planned = plan_wave(self._options, self._columns)
        settle()
        return planned
