"""A proxy on a loopback port that holds every connection back in the middle of its answers, until it is opened."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE_BYTES = 64 * 1024


class GatedProxy:
    """Outlives the server behind it: without one, a connection is closed as soon as it is made."""

    def __init__(self, target: str, *, hold_after_bytes: int) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._hold_after_bytes = hold_after_bytes
        self._lock = threading.Lock()
        self._passed: dict[socket.socket, int] = {}
        self._gate = threading.Event()
        self._gate.set()
        self.held = 0
        """Connections that wait at the gate."""
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self.open()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def shut(self) -> None:
        """From now on each connection is held when so many bytes have come back."""
        with self._lock:
            self._passed.clear()
        self._gate.clear()

    def open(self) -> None:
        self._gate.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                for way in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                if is_answer:
                    self._wait_at_the_gate(sink, len(data))
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _wait_at_the_gate(self, sink: socket.socket, size: int) -> None:
        with self._lock:
            passed = self._passed[sink] = self._passed.get(sink, 0) + size
            is_held = passed > self._hold_after_bytes and not self._gate.is_set()
            self.held += is_held
        if is_held:
            self._gate.wait()
            with self._lock:
                self.held -= 1


@contextmanager
def gated_proxy(target: str, *, hold_after_bytes: int) -> Iterator[GatedProxy]:
    proxy = GatedProxy(target, hold_after_bytes=hold_after_bytes)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
