"""Publishes to an embedded event log until it is killed, and prints what was acknowledged.

Run as a process: arguments are the file and a name for this run; each line is `partition offset value`.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future
from pathlib import Path
from threading import Semaphore

from tiergate_server.adapters.embedded_log import EmbeddedEventLog

IN_FLIGHT = 40


def main(path: str, name: str) -> None:
    log = EmbeddedEventLog(Path(path))
    room = Semaphore(IN_FLIGHT)

    def publish(partition: int, value: str) -> None:
        def acknowledged(future: Future[int]) -> None:
            os.write(1, f"{partition} {future.result()} {value}\n".encode())
            room.release()

        log.publish(partition, value.encode()).add_done_callback(acknowledged)

    number = 0
    while True:
        room.acquire()
        publish(number % 5, f"{name}-{number}-{'x' * (number % 700)}")
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
