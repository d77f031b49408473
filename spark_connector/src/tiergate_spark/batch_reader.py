"""The batch reader: plans on the driver, reads on the executors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tiergate_spark.bounds import Bounds, bounds_of
from tiergate_spark.input_split import InputSplit
from tiergate_spark.options import SourceOptions
from tiergate_spark.prompt_acknowledgement import PromptlyAcknowledged
from tiergate_spark.running_program import running_program
from tiergate_spark.schema import Column
from tiergate_spark.settling import settle

# Spark runs this module in the process in which it pushes filters, and in no other.
_PUSHING_MODULE: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class BatchReader(PromptlyAcknowledged, DataSourceReader):
    """What it holds is sent to executors: the heavier modules are imported where they are used."""

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        from tiergate_spark.planning import plan_batch  # noqa: PLC0415 - see the class

        planned = plan_batch(self._options, self._columns, bounds=self._bounds)
        settle()
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, InputSplit):  # Spark makes one up where there are none
            return iter(())
        from tiergate_spark.worker import read_input_split  # noqa: PLC0415 - see the class

        return read_input_split(partition)


class FilteredBatchReader(BatchReader):
    """Is told the filters of the query. All of them remain to be applied by Spark: they only spare reading."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - named by Spark
        self._bounds = bounds_of(filters, self._columns)
        return filters


def batch_reader(options: SourceOptions, columns: tuple[Column, ...]) -> BatchReader:
    """The reader for this process.

    Where the switch spark.sql.python.filterPushdown.enabled is off, as by default, Spark refuses every reader that
    defines `pushFilters`. Where it is on, Spark calls it in a process of its own, which can be told by its module.
    """
    kind = FilteredBatchReader if _is_where_filters_are_pushed() else BatchReader
    return kind(options, columns)


def _is_where_filters_are_pushed() -> bool:
    return _PUSHING_MODULE in sys.modules or running_program() == _PUSHING_MODULE
