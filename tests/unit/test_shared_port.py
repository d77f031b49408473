"""A port for several processes: who may listen on it, and who is refused."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from support.planes import free_ports
from tiergate_server.config import ConfigError
from tiergate_server.grpc_servers import listen, server_options
from tiergate_server.supervisor.shared_port import SharedPort


def new_server(*, is_port_shared: bool) -> grpc.Server:
    return grpc.server(
        ThreadPoolExecutor(1), options=server_options(message_bytes=1 << 20, is_port_shared=is_port_shared)
    )


def listening(address: str, *, is_port_shared: bool) -> grpc.Server:
    server = new_server(is_port_shared=is_port_shared)
    listen(server, address, setting="segments.listen")
    server.start()
    return server


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_several_servers_listen_on_a_port_that_is_held_for_them(host: str) -> None:
    with SharedPort(f"{host}:0", setting="segments.listen") as port:
        assert port.address.port != 0
        servers = [listening(str(port.address), is_port_shared=True) for _ in range(3)]
        with grpc.insecure_channel(str(port.address.to_connect_from_here())) as channel:
            grpc.channel_ready_future(channel).result(10)
        for server in servers:
            server.stop(0).wait()


@pytest.mark.parametrize("has_servers", [True, False], ids=["listened on", "not listened on yet"])
def test_port_that_is_held_is_refused_to_everybody_else(*, has_servers: bool) -> None:
    with SharedPort("127.0.0.1:0", setting="segments.listen") as port:
        address = str(port.address)
        servers = [listening(address, is_port_shared=True) for _ in range(2 * has_servers)]
        with pytest.raises(ConfigError) as alone:
            listen(new_server(is_port_shared=False), address, setting="segments.listen")
        with pytest.raises(ConfigError) as shared:
            SharedPort(address, setting="segments.listen")
        assert str(alone.value) == str(shared.value)
        assert f"segments.listen = {address} cannot be listened on" in str(shared.value)
        for server in servers:
            server.stop(0).wait()
    SharedPort(address, setting="segments.listen").close()


def test_port_of_a_server_that_listens_alone_is_refused() -> None:
    server = new_server(is_port_shared=False)
    address = str(listen(server, "127.0.0.1:0", setting="segments.listen"))
    server.start()
    with pytest.raises(ConfigError, match="cannot be listened on"):
        SharedPort(address, setting="segments.listen")
    server.stop(0).wait()


def test_port_whose_last_connections_are_not_forgotten_yet_can_be_held() -> None:
    """As after a restart with more workers: the server closed its connections first, which are in TIME_WAIT now."""
    (number,) = free_ports(1)
    with socket.create_server(("127.0.0.1", number)) as server, socket.create_connection(("127.0.0.1", number)) as peer:
        connection, _ = server.accept()
        connection.close()
        assert peer.recv(1) == b""
    with SharedPort(f"127.0.0.1:{number}", setting="segments.listen") as port:
        listening(str(port.address), is_port_shared=True).stop(0).wait()


def test_port_that_is_left_in_time_can_be_held() -> None:
    server = new_server(is_port_shared=False)
    address = str(listen(server, "127.0.0.1:0", setting="segments.listen"))
    server.start()
    with ThreadPoolExecutor(1) as patient:
        held = patient.submit(SharedPort, address, setting="segments.listen", patience_s=20)
        server.stop(0).wait()
        held.result(20).close()
