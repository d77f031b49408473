"""Chooses ports for addresses that leave them open, so that two planes can be told of each other before they start.

The ports are free when they are chosen; nothing keeps them free until the planes take them.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack

from tiergate_server.addresses import Address
from tiergate_server.config import ConfigError


def choose_free_ports(addresses: Mapping[str, str]) -> dict[str, str]:
    """For each address (by setting) with port 0, the same address with a port; others and empty ones are left out."""
    chosen: dict[str, str] = {}
    with ExitStack() as held:  # all at once, so that no two are the same
        for setting, text in addresses.items():
            address = Address.parse(text) if text else None
            if address is None or address.port != 0:
                continue
            family = socket.AF_INET6 if address.is_ipv6 else socket.AF_INET
            probe = held.enter_context(socket.socket(family))
            try:
                probe.bind((address.host, 0))
            except OSError as error:
                raise ConfigError(f"{setting} = {text} cannot be listened on: {error.strerror}.") from error
            chosen[setting] = str(address.with_port(probe.getsockname()[1]))
    return chosen
