from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tiergate_spark.batch_reader import BatchReader
from tiergate_spark.options import parse_options
from tiergate_spark.prompt_acknowledgement import acknowledge_at_once
from tiergate_spark.schema import columns_of, source_schema
from tiergate_spark.stream_reader import StreamReader

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="an option of Linux")


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """Which acknowledges late, as those do over which Spark has sent something."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        closing(server.accept()[0]) as accepted,
    ):
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield accepted


def is_prompt(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def test_connections_of_the_process_acknowledge_at_once(connection: socket.socket) -> None:
    assert not is_prompt(connection)
    acknowledge_at_once()
    assert is_prompt(connection)


def test_other_open_files_are_left_as_they_are(connection: socket.socket) -> None:
    left, right = socket.socketpair()
    with left, right, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        acknowledge_at_once()
        left.sendall(b"still open")
        assert right.recv(100) == b"still open"
        assert datagrams.getsockname()  # of the descriptor itself
    connection.settimeout(0.0)
    with pytest.raises(BlockingIOError):  # open as well
        connection.recv(1)


def test_connections_wait_as_before_under_a_default_time_out(connection: socket.socket) -> None:
    connection.setblocking(True)
    socket.setdefaulttimeout(5.0)
    try:
        acknowledge_at_once()
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(connection.fileno())


@pytest.mark.parametrize("kind", [BatchReader, StreamReader])
def test_reader_acknowledges_when_it_arrives_in_a_worker(
    kind: type[BatchReader | StreamReader], connection: socket.socket
) -> None:
    options = parse_options({"target": "localhost:1", "subscribe": "orders"})
    sent = pickle.dumps(kind(options, columns_of(source_schema(include_headers=False))))
    assert not is_prompt(connection)
    pickle.loads(sent)  # noqa: S301 - made above
    assert is_prompt(connection)
