"""A frame that Spark keeps beyond the pipeline that made it, for its caller to let go; of one that failed, none is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def kept_frame(frame: DataFrame) -> Iterator[DataFrame]:
    """Kept behind the body, too, unless that fails."""
    kept = frame.persist()
    try:
        yield kept
    except BaseException:
        kept.unpersist()
        raise
