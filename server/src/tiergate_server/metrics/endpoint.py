"""Serves a Prometheus registry over HTTP at /metrics, and nothing else.

What is in the registry is `tiergate_server.metrics.planes`'s.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tiergate_server.addresses import Address
from tiergate_server.config import ConfigError


class MetricsEndpoint:
    """A running endpoint; `address` has the port that was really taken."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        host, port = server.server_address[:2]
        self.address = str(Address(host=str(host), port=int(port)))
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening; a second time is fine."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(address: str, registry: CollectorRegistry, *, setting: str = "metrics") -> MetricsEndpoint:
    """Listens at `address`, which `setting` names in the configuration. Raises ConfigError when it cannot."""
    parsed = Address.parse(address)
    try:
        return MetricsEndpoint(_Server(parsed, registry))
    except OSError as error:
        raise ConfigError(
            f"{setting} = {address} cannot be listened on ({error.strerror}): "
            "choose another address, or set it to nothing to have no metrics."
        ) from error


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True  # a restarted plane finds its port in TIME_WAIT
    daemon_threads = True

    def __init__(self, address: Address, registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if address.is_ipv6 else socket.AF_INET
        self.registry = registry
        super().__init__((address.host, address.port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10  # seconds until a peer that stops talking is let go
    server_version = "tiergate"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "Only /metrics is served here")
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Says nothing: a scrape every few seconds is no news."""
