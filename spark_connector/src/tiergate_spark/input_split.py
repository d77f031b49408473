"""What the driver sends to an executor for one task: all that it needs to read a split on its own."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from tiergate_spark.options import Service
from tiergate_spark.schema import Column


@dataclass(frozen=True)
class InputSplit(InputPartition):
    """Needs the segment plane, or the store behind it; the metadata plane is not asked again."""

    split: bytes
    """A ReadSplit in its stored form, which carries its version."""
    service: Service
    columns: tuple[Column, ...]
    min_timestamp_ms: int | None = None
    """Records that are older are left out."""
    fail_on_data_loss: bool = True
    """Whether a segment that was deleted since the plan was made is an error."""
