"""Network addresses as people write them: `host:port`, with an IPv6 host in brackets.

It reads and writes the text only; whether somebody listens there is for others to find out.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Self

_BRACKETED = re.compile(r"\[(?P<host>[^\]]+)\]:(?P<port>[0-9]{1,5})")
_PLAIN = re.compile(r"(?P<host>[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host (name, IPv4 or IPv6 without brackets) and a port; port 0 means any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError that says what an address looks like."""
        match = _BRACKETED.fullmatch(text) or _PLAIN.fullmatch(text)
        if match is None or int(match["port"]) > _HIGHEST_PORT or not _names_a_host(match):
            raise ValueError("expected host:port, such as 127.0.0.1:7400, 0.0.0.0:7400 (every interface) or [::1]:7400")
        return cls(host=match["host"], port=int(match["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def is_every_interface(self) -> bool:
        """Whether it is an address to listen on that nobody else can connect to."""
        return self.host in {"0.0.0.0", "::"}  # noqa: S104 (recognised here, bound by nobody)

    def with_port(self, port: int) -> Self:
        return replace(self, port=port)

    def to_connect_from_here(self) -> Self:
        """Where a process on the same machine reaches a server that listens on this address."""
        if not self.is_every_interface:
            return self
        return replace(self, host="::1" if self.is_ipv6 else "127.0.0.1")


def _names_a_host(match: re.Match[str]) -> bool:
    if match.re is _PLAIN:
        return True
    try:
        ipaddress.IPv6Address(match["host"])
    except ValueError:
        return False
    return True
