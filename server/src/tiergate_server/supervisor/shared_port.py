"""One port for several processes: it is proven free, and then kept for those that listen on it together.

Who listens there is not decided here. SO_REUSEPORT lets processes of one user share a port, which would also let a
second Tiergate in without a word; so whoever wants a port asks first without it.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

from tiergate_server.addresses import Address
from tiergate_server.config import ConfigError

_LOOK_AGAIN_S = 0.05


def cannot_listen(setting: str, address: str) -> ConfigError:
    return ConfigError(
        f"{setting} = {address} cannot be listened on: another program has it, or it is no address of this machine; "
        f"stop that program, or name another address with --set {setting}=HOST:PORT."
    )


class SharedPort:
    """Held from its making to `close`; `address` has the port that was really taken."""

    def __init__(self, address: str, *, setting: str, patience_s: float = 0.0) -> None:
        """Raises ConfigError when another program has it, and does not leave it for so long."""
        self._wanted = Address.parse(address)
        give_up_at_s = time.monotonic() + patience_s
        while True:
            try:
                port = self._free_port()
                self._held = self._hold(port)
                break
            except OSError as error:
                if time.monotonic() >= give_up_at_s:
                    raise cannot_listen(setting, address) from error
                time.sleep(_LOOK_AGAIN_S)
        self.address = self._wanted.with_port(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._held.close()

    def _free_port(self) -> int:
        with self._bound(self._wanted.port, socket.SO_REUSEADDR) as alone:
            return int(alone.getsockname()[1])

    def _hold(self, port: int) -> socket.socket:
        """Without SO_REUSEADDR, so that also who asks with it is refused while none of ours listens yet."""
        try:
            return self._bound(port, socket.SO_REUSEPORT)
        except OSError:  # connections of a server that listened here alone are in TIME_WAIT
            return self._bound(port, socket.SO_REUSEPORT, socket.SO_REUSEADDR)

    def _bound(self, port: int, *options: int) -> socket.socket:
        made = socket.socket(socket.AF_INET6 if self._wanted.is_ipv6 else socket.AF_INET)
        try:
            for option in options:
                made.setsockopt(socket.SOL_SOCKET, option, 1)
            made.bind((self._wanted.host, port))
        except BaseException:
            made.close()
            raise
        return made
