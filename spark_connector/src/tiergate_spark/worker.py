"""The executors' side: reads a split in a worker process of Spark's. What to read was planned on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tiergate_client.errors import TiergateError
from tiergate_client.record_conversions import split_from_bytes
from tiergate_client.records.split_reading import read_split
from tiergate_spark.data_loss import tell_gone
from tiergate_spark.input_split import InputSplit
from tiergate_spark.rows import SparkRows
from tiergate_spark.settling import settle
from tiergate_spark.worker_client import worker_client
from tiergate_spark.worker_memory import keep_freed_memory

_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""What Python does once per chunk is dear beside a JVM that has the processor's caches."""


def read_input_split(task: InputSplit) -> Iterator[Any]:
    """The rows of the split as `pyarrow.RecordBatch`es. A stream that breaks is resumed by the client."""
    split = split_from_bytes(task.split)
    partition = split.partition
    rows = SparkRows(
        task.columns,
        topic=partition.topic,
        partition=partition.partition,
        min_timestamp_ms=task.min_timestamp_ms,
    )
    client = worker_client(task.service)
    keep_freed_memory()
    try:
        for batch in read_split(
            split,
            client.storage,
            columns=rows.decoded_columns,
            chunk_bytes=_CHUNK_BYTES,
            on_gone=None if task.fail_on_data_loss else tell_gone,
        ):
            settle()
            yield rows.of(batch)
    except TiergateError as error:
        raise error from None  # Spark would print the calls behind it, above the sentence
