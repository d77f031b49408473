"""The stream reader: what Spark calls at each trigger; the work is done in `stream_driver.py` and on the executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from tiergate_client.errors import InvalidField
from tiergate_spark.options import SourceOptions
from tiergate_spark.prompt_acknowledgement import PromptlyAcknowledged
from tiergate_spark.schema import Column
from tiergate_spark.stream_offsets import StreamOffset, partition_numbers, stream_offset

if TYPE_CHECKING:
    from tiergate_spark.input_split import InputSplit
    from tiergate_spark.stream_driver import StreamDriver


class StreamReader(PromptlyAcknowledged, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Sent to executors before it is used: the heavier modules are imported, and a connection made, on first use.

    A `refusal` is raised on first use too: Spark hides one that comes before behind an error of its own. Names of
    methods are Spark's.
    """

    def __init__(
        self, options: SourceOptions, columns: tuple[Column, ...], *, refusal: InvalidField | None = None
    ) -> None:
        self._options = options
        self._columns = columns
        self._refusal = refusal
        self._driver_once_used: StreamDriver | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._driver.freeze()

    def initialOffset(self) -> StreamOffset:  # noqa: N802
        return stream_offset(self._driver.start())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return stream_offset(self._driver.stops(partition_numbers(start), limit=most))

    def reportLatestOffset(self) -> StreamOffset | None:  # noqa: N802
        available = self._driver.last_available
        return None if available is None else stream_offset(available)

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        return self._driver.plan(partition_numbers(start), partition_numbers(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from tiergate_spark.worker import read_input_split  # noqa: PLC0415 - see the class

        return read_input_split(cast("InputSplit", partition))

    def stop(self) -> None:
        if self._driver_once_used is not None:
            self._driver_once_used.close()

    @property
    def _driver(self) -> StreamDriver:
        if self._refusal is not None:
            raise self._refusal
        if self._driver_once_used is None:
            from tiergate_spark.stream_driver import StreamDriver  # noqa: PLC0415 - see the class

            self._driver_once_used = StreamDriver(self._options, self._columns)
        return self._driver_once_used
