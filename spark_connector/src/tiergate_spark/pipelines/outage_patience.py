"""Work of pipelines goes on when a plane, or the store behind it, was away for a while, on the driver and on executors.

What a single call repeats by itself is over in a second or two, and `local` Spark gives a task no second attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from tiergate_client.errors import Unavailable
from tiergate_client.outages import ride_out
from tiergate_spark.driver_calls import PATIENCE_S

_log = logging.getLogger("tiergate_spark")

Result = TypeVar("Result")


def ridden_out(work: Callable[[], Result], *, subject: str) -> Result:
    """What `work` returns, which is begun anew when it raises Unavailable; the last one is raised in the end."""

    def tell(failure: Unavailable) -> None:
        _log.warning("%s: %s; it is tried again for up to %d seconds", subject, failure.message, PATIENCE_S)

    return ride_out(work, patience_s=PATIENCE_S, on_outage=tell)
