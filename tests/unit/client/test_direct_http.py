"""Connections against a peer that answers word by word what a test says."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from support.certificates import make_certificate
from support.waiting import wait_until
from tiergate_client._direct_answer import Body, ObjectMissing, ObjectTooShort, StoreOutOfReach, UrlRefused
from tiergate_client._direct_http import Connections

SECRET = "X-Amz-Signature=0123456789abcdef"  # noqa: S105
RUN = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-14/100\r\nContent-Length: 5\r\n\r\nabcde"
HANG_UP = b""


class Peer:
    """Answers each request with the next line of the script, over as many connections as it takes."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.script: list[bytes] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}/bucket/log?{SECRET}"
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                with near, suppress(OSError):  # who does not trust us hangs up
                    self._answer(near if self._tls is None else self._tls.wrap_socket(near, server_side=True))

    def _answer(self, near: socket.socket) -> None:
        while self.script and (request := near.recv(65536)):
            self.requests.append(request)
            answer = self.script.pop(0)
            if answer == HANG_UP:
                break
            near.sendall(answer)
        near.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.stop()


@pytest.fixture
def connections() -> Iterator[Connections]:
    connections = Connections(connect_timeout_s=5, read_timeout_s=5)
    yield connections
    connections.close()


def read(body: Body, size: int = 5) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: body.readinto(memoryview(buffer))])


def test_run_of_bytes_is_asked_for_with_the_whole_url(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN]
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    (request,) = peer.requests
    assert request.startswith(f"GET /bucket/log?{SECRET} HTTP/1.1\r\n".encode())
    assert b"\r\nRange: bytes=10-14\r\n" in request


def test_connection_whose_answer_was_read_is_used_again(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN, RUN, RUN]
    for _ in range(3):
        assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    assert peer.connections == 1


def test_connection_whose_answer_was_not_read_is_not_used_again(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN, RUN]
    connections.get(peer.url, begin=10, end=15).close()
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    assert peer.connections == 2


def test_kept_connection_that_the_store_has_closed_is_replaced(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN, HANG_UP, RUN]
    for _ in range(2):
        assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    assert peer.connections == 2


def test_answer_that_breaks_off_is_given_as_far_as_it_came(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN[:-2]]
    body = connections.get(peer.url, begin=10, end=15)
    assert read(body) == b"abc"
    assert read(body) == b""


def test_reader_is_woken_when_another_thread_closes_the_answer(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN[:-2], b"for a request that never comes"]
    body = connections.get(peer.url, begin=10, end=15)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, body)
        wait_until(lambda: body.length == 5 and body._reading.locked())
        body.close()
        assert len(reading.result(timeout=4)) < 5


def test_connection_that_was_idle_for_long_is_not_used_again(
    peer: Peer, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.script = [RUN, RUN, b"for a request that never comes"]
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    later_s = time.monotonic() + 31
    monkeypatch.setattr("tiergate_client._direct_http.time.monotonic", lambda: later_s)
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    assert peer.connections == 2


def test_connection_that_the_store_wants_closed_is_not_kept(peer: Peer, connections: Connections) -> None:
    closing = RUN.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
    peer.script = [closing, RUN]
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    peer.script = [RUN]
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    assert peer.connections == 2


def test_connections_that_were_idle_for_long_are_closed(
    peer: Peer, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.script = [RUN, RUN, b"for a request that never comes"]
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    (((_, kept),),) = connections._idle.values()
    later_s = time.monotonic() + 31
    monkeypatch.setattr("tiergate_client._direct_http.time.monotonic", lambda: later_s)
    assert read(connections.get(peer.url, begin=10, end=15)) == b"abcde"
    assert kept.sock is None


def test_answer_that_the_store_ends_with_its_connection_is_closed_with_it(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN.replace(b"Content-Length", b"Connection: close\r\nContent-Length")]
    body = connections.get(peer.url, begin=10, end=15)
    body.close()
    assert body._response.isclosed()


def test_closed_client_reads_nothing_more(peer: Peer, connections: Connections) -> None:
    peer.script = [RUN]
    connections.close()
    with pytest.raises(RuntimeError, match="closed"):
        connections.get(peer.url, begin=10, end=15)
    assert peer.connections == 0


def answer(status: int, headers: str = "Content-Length: 0") -> bytes:
    return f"HTTP/1.1 {status} Because\r\n{headers}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (answer(404), ObjectMissing),
        (answer(416), ObjectTooShort),
        (answer(206, "Content-Range: bytes 10-12/13\r\nContent-Length: 3"), ObjectTooShort),
        (answer(500), StoreOutOfReach),
        (answer(503), StoreOutOfReach),
        (answer(429), StoreOutOfReach),
        (answer(200, "Content-Length: 100"), UrlRefused),
        (answer(206, "Content-Range: bytes 0-4/100\r\nContent-Length: 5"), UrlRefused),
        (answer(206, "Content-Length: 5"), UrlRefused),
        (answer(206, "Content-Range: bytes 10-15/100\r\nContent-Length: 6"), UrlRefused),
        (answer(301, "Location: http://elsewhere/"), UrlRefused),
        (answer(400), UrlRefused),
        (answer(403), UrlRefused),
        (HANG_UP, StoreOutOfReach),
        (b"no HTTP at all\r\n\r\n", StoreOutOfReach),
    ],
)
def test_every_other_answer_is_an_error_of_its_kind_that_holds_no_secret(
    peer: Peer, connections: Connections, answered: bytes, expected: type[Exception]
) -> None:
    peer.script = [answered]
    with pytest.raises(expected) as caught:
        connections.get(peer.url, begin=10, end=15)
    assert type(caught.value) is expected
    assert "0123456789abcdef" not in "".join(traceback.format_exception(caught.value))
    is_another_run = answered.startswith(b"HTTP/1.1 2")
    assert expected is not UrlRefused or ("serves ranges" in str(caught.value)) == is_another_run


@pytest.mark.parametrize(
    "url",
    [
        "ftp://store/log?{}",
        "/log?{}",
        "http:///log?{}",
        "http://store:port/log?{}",
        "http://[/log?{}",
        "http://{host}/a b?{}",
        "http://{host}/\N{SNOWMAN}?{}",
    ],
)
def test_url_that_cannot_be_asked_for_is_refused_without_repeating_it(
    peer: Peer, connections: Connections, url: str
) -> None:
    host = peer.url.split("/")[2]
    with pytest.raises(UrlRefused) as caught:
        connections.get(url.replace("{}", SECRET).replace("{host}", host), begin=0, end=1)
    assert "0123456789abcdef" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_nobody_at_the_address_is_out_of_reach(peer: Peer, connections: Connections) -> None:
    peer.stop()
    with pytest.raises(StoreOutOfReach, match=r"cannot connect to the store at 127\.0\.0\.1:"):
        connections.get(peer.url, begin=0, end=1)


def test_https_is_verified_with_the_authorities_of_the_machine(
    tmp_path: Path, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.certificate, certificate.key)
    peer = Peer(tls)
    peer.script = [RUN, RUN]
    with pytest.raises(StoreOutOfReach, match="certificate verify failed"):
        connections.get(peer.url, begin=10, end=15)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    trusting = Connections(connect_timeout_s=5, read_timeout_s=5)
    for _ in range(2):
        assert read(trusting.get(peer.url, begin=10, end=15)) == b"abcde"
    assert peer.connections == 2
    trusting.close()
    peer.stop()
