"""GET requests for a run of bytes, over connections that are kept for the next one and belong to one process.

What the bytes are is not known here. Errors never hold a URL, which is a secret until it expires.
"""

from __future__ import annotations

import http.client
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from urllib.parse import urlsplit

from tiergate_client._direct_answer import Body, StoreOutOfReach, UrlRefused
from tiergate_client._fork_safety import ForkSafe

_MOST_KEPT = 8
"""Idle connections per host."""
_KEPT_S = 30.0
"""What was idle for longer, something on the way may have forgotten without telling either end."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Whom to connect to."""

    scheme: str
    host: str
    port: int | None

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


class Connections(ForkSafe):
    """Safe to use from many threads, and after a fork: the child opens its own."""

    def __init__(self, *, connect_timeout_s: float, read_timeout_s: float) -> None:
        super().__init__()
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._idle: dict[_Place, list[tuple[float, http.client.HTTPConnection]]] = {}
        self._closed = False

    def get(self, url: str, *, begin: int, end: int) -> Body:
        """The bytes [begin, end) of what the URL names. Raises StoreOutOfReach, ObjectMissing, ObjectTooShort."""
        place, target = _parsed(url)
        headers = {"Range": f"bytes={begin}-{end - 1}"}
        body = self._asked(place, self._kept(place), target, headers)
        if body is None:  # none was kept, or the store had closed it
            body = self._asked(place, self._connected(place), target, headers)
        if body is None:
            raise StoreOutOfReach(f"the store at {place} hung up instead of answering: try again later")
        try:
            body.require_run(begin, end)
        except Exception:
            body.close()
            raise
        return body

    def _keep(self, place: _Place, connection: http.client.HTTPConnection) -> None:
        with self.lock:
            idle = self._idle.setdefault(place, [])
            if len(idle) < _MOST_KEPT and not self._closed:
                idle.append((time.monotonic(), connection))
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for _, connection in connections:
                connection.close()

    def forked(self) -> None:
        super().forked()
        self._idle = {}  # closes the child's handles of the parent's sockets, which the parent does not notice

    def _kept(self, place: _Place) -> http.client.HTTPConnection | None:
        with self.lock:
            if self._closed:
                raise RuntimeError("this client is closed")
            idle = self._idle.get(place)
            idle_since_s, connection = idle.pop() if idle else (0.0, None)
            if connection is None or idle_since_s >= time.monotonic() - _KEPT_S:
                return connection
            outdated = [connection, *(older for _, older in self._idle.pop(place))]
        for connection in outdated:
            connection.close()
        return None

    def _connected(self, place: _Place) -> http.client.HTTPConnection:
        connection = (
            http.client.HTTPSConnection(
                place.host, place.port, timeout=self._connect_timeout_s, context=self._ssl_context
            )
            if place.scheme == "https"
            else http.client.HTTPConnection(place.host, place.port, timeout=self._connect_timeout_s)
        )
        try:
            connection.connect()
        except OSError as trouble:
            raise StoreOutOfReach(f"cannot connect to the store at {place}: {trouble}") from trouble
        connection.sock.settimeout(self._read_timeout_s)
        return connection

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _asked(
        self, place: _Place, connection: http.client.HTTPConnection | None, target: str, headers: dict[str, str]
    ) -> Body | None:
        """None: the connection broke before an answer came."""
        if connection is None:
            return None
        try:
            connection.request("GET", target, headers=headers)
            return Body(connection, place=str(place), keep=partial(self._keep, place))
        except (http.client.InvalidURL, ValueError):  # whose text is the URL
            pass
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        connection.close()
        raise UrlRefused("the service gave a URL that cannot be sent: check the names in its store")


def _parsed(url: str) -> tuple[_Place, str]:
    """Whom to ask, and for what."""
    with suppress(ValueError):  # whose text may be a part of the URL
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return _Place(parts.scheme, parts.hostname, parts.port), f"{parts.path}?{parts.query}"
    raise UrlRefused("the service gave a URL that is none of http or https: check where its store is")
