"""Opens the stores of segments for a command that looks into them itself, as the server's configuration names them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tiergate_client.exit_codes import ExitCode
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.cli.server_options import ServerOptions
from tiergate_server.config import Config, ConfigError
from tiergate_server.config.stores import StorePlace
from tiergate_server.segments.object_store import ObjectStore

THREADS = 16
"""How many of a command's threads may use a store at the same time."""


def load(options: ServerOptions) -> Config:
    """Raises CommandFailed."""
    try:
        return options.load()
    except ConfigError as complaint:
        raise _misconfigured(complaint) from None


@contextmanager
def opened_stores(config: Config) -> Iterator[Mapping[str, ObjectStore]]:
    """All of them, by name."""
    with opened_existing_stores(config) as stores:
        for name, place in config.stores.items():
            if name not in stores:
                raise CommandFailed(
                    f"store {name}, {place.uri}, does not exist: run this where the segment plane runs, with its "
                    "configuration"
                )
        yield stores


@contextmanager
def opened_existing_stores(config: Config) -> Iterator[Mapping[str, ObjectStore]]:
    """All but those whose directory is not there."""
    with ExitStack() as opened:
        yield {
            name: opened.enter_context(_opened(config, place))
            for name, place in config.stores.items()
            if place.directory is None or place.directory.is_dir()
        }


@contextmanager
def _opened(config: Config, place: StorePlace) -> Iterator[ObjectStore]:
    from tiergate_server.object_stores import open_object_store  # noqa: PLC0415 - SDKs only where needed

    # Its log lines are a server's: here one sentence says what went wrong.
    logging.getLogger("tiergate_server").addHandler(logging.NullHandler())
    try:
        store = open_object_store(config, place, threads=THREADS, check=False)
    except ConfigError as complaint:
        raise _misconfigured(complaint) from None
    try:
        yield store
    finally:
        store.close()


def _misconfigured(complaint: ConfigError) -> CommandFailed:
    return CommandFailed(str(complaint).rstrip("."), exit_code=ExitCode.CONFIG)
