"""Signals turned into something that a selector can wait for. What a signal means is the reader's business."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Lets Python write the number to the wake-up descriptor, which happens only for handled signals."""


@contextmanager
def signal_numbers(signals: Iterable[signal.Signals]) -> Iterator[socket.socket]:
    """A socket from which the numbers of the given signals are read, one byte each. Main thread only."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    previous_handlers: dict[signal.Signals, Any] = {number: signal.signal(number, _ignore) for number in signals}
    previous_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()
