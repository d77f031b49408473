"""Keeps Python's garbage collector away from what a process of Spark's imports once and keeps."""

from __future__ import annotations

import gc
from functools import cache

from tiergate_spark.running_program import running_program


@cache
def settle() -> None:
    """To be called when all is imported; once per process, however often it is called.

    PySpark collects garbage after every task, and what is there by now need not be looked at again: with numba loaded
    that is most of the time of a short task, and 20 ms of each of the two processes that plan a query. Nothing is done
    in other processes than PySpark's own, such as a notebook.
    """
    if not running_program().startswith("pyspark."):
        return
    gc.collect()
    gc.freeze()
