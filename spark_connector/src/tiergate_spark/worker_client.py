"""The connection of a worker process of Spark's to Tiergate; the driver opens and closes its own."""

from __future__ import annotations

from functools import cache
from typing import Final

from tiergate_client import Tiergate, connect
from tiergate_spark.options import Service

_STREAM_TIMEOUT_S: Final = 24 * 3600.0
"""Rows are taken as fast as the query can use them, and one that is slow may take hours for a split."""


@cache
def worker_client(service: Service) -> Tiergate:
    """One for all tasks of a worker process; its channels are opened in the process that uses them."""
    return connect(service.target, segments=service.segments, access=service.access, stream_timeout_s=_STREAM_TIMEOUT_S)
