"""Lets SIGTERM end a put as Ctrl-C does, with the same clean-up; what is cleaned up is not decided here."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tiergate_client.exit_codes import ExitCode
from tiergate_server.cli.failures import CommandFailed


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    terminated = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            raise CommandFailed("terminated", exit_code=ExitCode.TERMINATED) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
