"""The connection of a worker process of Spark's to Tiergate; the driver opens and closes its own."""

from __future__ import annotations

from functools import cache

from tiergate_client import Tiergate, connect
from tiergate_spark.options import Service


@cache
def worker_client(service: Service) -> Tiergate:
    """One for all tasks of a worker process; its channels are opened in the process that uses them."""
    return connect(service.target, segments=service.segments, access=service.access)
