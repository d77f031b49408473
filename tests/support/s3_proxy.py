"""An HTTP proxy before the S3 server that changes, refuses or breaks chosen requests. It keeps nothing.

For what connections do when bytes are merely cut, see `cutting_proxy`.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.s3_server import ACCESS_KEY, REGION, SECRET_KEY

_PIECE_BYTES = 64 * 1024
_HOP_BY_HOP = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})
_SIGNATURE = frozenset({"authorization", "x-amz-date", "x-amz-content-sha256", "host"})


@dataclass(frozen=True, slots=True)
class S3Request:
    method: str
    key: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    @property
    def is_part(self) -> bool:
        return self.method == "PUT" and "partNumber" in self.query

    @property
    def is_completion(self) -> bool:
        return self.method == "POST" and "uploadId" in self.query


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answers with an error as S3 words it, once the request was read."""

    status: int
    code: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers with this, once the request was read."""

    body: bytes
    status: int = 200


@dataclass(frozen=True, slots=True)
class Truncate:
    """Passes the request on, and breaks off after so many bytes of the answer's body."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Reset:
    """Resets the connection when so many bytes of the body were read."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Stall:
    """Reads the request and never answers."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Passes the request on, then resets the connection."""


@dataclass(frozen=True, slots=True)
class WithoutHeaders:
    """Passes the request on without these."""

    names: frozenset[str]


Fault = Refuse | Answer | Truncate | Reset | Stall | LoseAnswer | WithoutHeaders
Rule = Callable[[S3Request], Fault | None]


@dataclass(slots=True)
class S3Proxy:
    endpoint_url: str
    rule: Rule
    requests: list[S3Request] = field(default_factory=list)
    body_bytes: int = 0
    """Of all requests together, as far as they were read."""
    stopped: threading.Event = field(default_factory=threading.Event)


def once(rule: Rule) -> Rule:
    """The rule's first fault, and none from then on."""
    lock = threading.Lock()
    was_given = False

    def given(request: S3Request) -> Fault | None:
        nonlocal was_given
        with lock:
            fault = None if was_given else rule(request)
            was_given = was_given or fault is not None
            return fault

    return given


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: S3Proxy
    target: str

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        url = urlsplit(self.path)
        request = S3Request(
            self.command,
            url.path,
            parse_qs(url.query, keep_blank_values=True),
            {name.lower(): value for name, value in self.headers.items()},
        )
        self.proxy.requests.append(request)
        with suppress(OSError):
            self._act(request, self.proxy.rule(request))

    def _act(self, request: S3Request, fault: Fault | None) -> None:
        self.close_connection = isinstance(fault, Reset | Stall | LoseAnswer | Truncate)
        if isinstance(fault, Reset):
            self._body(fault.after_bytes)
            self._reset()
            return
        body = self._body(int(request.headers.get("content-length", "0")))
        if isinstance(fault, Stall):
            self.proxy.stopped.wait()
        elif isinstance(fault, Answer):
            self._answer(fault.status, {}, fault.body)
        elif isinstance(fault, Refuse):
            error = f"<Error><Code>{fault.code}</Code><Message>so says the proxy</Message></Error>"
            self._answer(fault.status, {}, error.encode())
        else:
            dropped = fault.names if isinstance(fault, WithoutHeaders) else frozenset()
            answer = self._passed_on(request, body, dropped)
            if isinstance(fault, LoseAnswer):
                self._reset()
            else:
                self._answer(*answer, sent_bytes=fault.after_bytes if isinstance(fault, Truncate) else None)

    def _body(self, size_bytes: int) -> bytes:
        pieces = []
        while size_bytes > 0 and (piece := self.rfile.read(min(size_bytes, _PIECE_BYTES))):
            self.proxy.body_bytes += len(piece)
            size_bytes -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def _passed_on(self, request: S3Request, body: bytes, dropped: frozenset[str]) -> tuple[int, dict[str, str], bytes]:
        headers = {name: value for name, value in request.headers.items() if name not in _HOP_BY_HOP}
        if dropped:
            headers = self._signed_again({name: headers[name] for name in headers.keys() - dropped}, body)
        connection = http.client.HTTPConnection(self.target)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _signed_again(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        unsigned = {name: value for name, value in headers.items() if name not in _SIGNATURE} | {"host": self.target}
        request = AWSRequest(self.command, f"http://{self.target}{self.path}", unsigned, body)
        S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION).add_auth(request)
        return dict(request.headers.items())

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, sent_bytes: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP | {"content-length"} or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent_bytes])

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def s3_proxy(endpoint_url: str, rule: Rule) -> Iterator[S3Proxy]:
    proxy = S3Proxy("", rule)
    served = {"proxy": proxy, "target": endpoint_url.removeprefix("http://")}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), served))
    proxy.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
