"""A proxy on a loopback port that passes bytes on and cuts a connection when so many have come back. It reads none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE_BYTES = 64 * 1024


class CuttingProxy:
    def __init__(self, port: int, *, cut_after_bytes: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._cut_after_bytes = cut_after_bytes
        self.cuts = 0
        self.connections = 0
        self.endpoint_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Refuses further connections; a second time is fine."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection(self._target)
                for way in ((near, far, None), (far, near, self._cut_after_bytes)):
                    threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                if limit is not None and passed + len(data) > limit:
                    sink.sendall(data[: limit - passed])
                    self.cuts += 1
                    break
                sink.sendall(data)
                passed += len(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def cutting_proxy(endpoint_url: str, *, cut_after_bytes: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(int(endpoint_url.rpartition(":")[2]), cut_after_bytes=cut_after_bytes)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
