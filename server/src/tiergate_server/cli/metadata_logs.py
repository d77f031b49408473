"""How a log is named on the command line, and opened: `embedded:/file` or `kafka://host:port[/topic]`.

Further settings of Kafka are the server's own, from its configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tiergate_client.errors import InvalidField
from tiergate_server.cli.failures import CommandFailed
from tiergate_server.cli.server_options import ServerOptions
from tiergate_server.config import Config, ConfigError
from tiergate_server.metadata.event_log import EventLogRefused

if TYPE_CHECKING:
    from tiergate_server.metadata.event_log import MetadataEventLog


def configured_log(address: str | None, options: ServerOptions) -> Config:
    """The server's settings with this log; without an address, with the one that they name."""
    settings = () if address is None else _settings_of(address)
    try:
        return ServerOptions(options.file, (*options.assignments, *settings)).load()
    except ConfigError as complaint:
        raise InvalidField(str(complaint).rstrip("."), details={"field": "log"}) from None


@contextmanager
def opened(open_log: Callable[[Config], MetadataEventLog], config: Config) -> Iterator[MetadataEventLog]:
    # Its log lines are a server's: here one sentence says what went wrong.
    logging.getLogger("tiergate_server.adapters").addHandler(logging.NullHandler())
    try:
        log = open_log(config)
    except EventLogRefused as refusal:
        raise CommandFailed(str(refusal).rstrip(".")) from refusal
    try:
        yield log
    finally:
        log.close()


def log_name(config: Config) -> str:
    """As it is named on the command line."""
    is_kafka = config.metadata.log.startswith("kafka://")
    return config.metadata_backend + (f"/{config.metadata.kafka.topic}" if is_kafka else "")


def _settings_of(address: str) -> tuple[str, ...]:
    scheme, _, place = address.partition(":")
    if scheme == "embedded" and place:
        return (f"metadata.log=embedded:{Path(place).absolute()}",)
    brokers, slash, topic = place.removeprefix("//").partition("/")
    if scheme == "kafka" and slash:
        return (f"metadata.log=kafka://{brokers}", f"metadata.kafka.topic={topic}")
    return (f"metadata.log={address}",)
