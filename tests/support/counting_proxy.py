"""A proxy on a loopback port of its own that passes bytes on and counts those that clients send. It changes none."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE_BYTES = 256 * 1024


class CountingProxy:
    """Outlives the server behind it: without one, a connection is closed as soon as it is made."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent_bytes = 0
        self.last_sent_s = 0.0

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                for way in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                if counts:
                    self.sent_bytes += len(data)
                    self.last_sent_s = time.monotonic()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def counting_proxy(target: str) -> Iterator[CountingProxy]:
    proxy = CountingProxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
