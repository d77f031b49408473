"""Repeats work that is made of many calls while a plane is away; single calls are repeated by the client itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tiergate_client._patience import Patience
from tiergate_client.errors import Unavailable

Answer = TypeVar("Answer")


def ride_out(work: Callable[[], Answer], *, patience_s: float, on_outage: Callable[[Unavailable], None]) -> Answer:
    """What `work` returns. It is done anew when it raises Unavailable, until `patience_s` after the first time.

    `on_outage` is told of the first failure. The last one is raised, and so is, at once, any other error.
    """
    patience: Patience | None = None
    while True:
        try:
            return work()
        except Unavailable as failure:
            if patience is None:
                patience = Patience(patience_s)
                on_outage(failure)
            if not patience.pause(failure):
                raise
