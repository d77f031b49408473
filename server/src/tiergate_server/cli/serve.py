"""`tiergate serve`: both planes under a supervisor, or one plane in this process.

What a plane is made of is `tiergate_server.app`'s; it is imported late, since the supervisor needs none of it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tiergate_server.addresses import Address
from tiergate_server.cli.server_options import (
    Assignments,
    ConfigFile,
    DataDirectory,
    Plane,
    ServerOptions,
    exit_on_config_error,
)
from tiergate_server.cli.session import DEFAULT_TARGET
from tiergate_server.config import Config, ConfigError, MetadataConfig, SegmentsConfig
from tiergate_server.logs import configure_logging
from tiergate_server.supervisor import PlaneCommand, Supervisor
from tiergate_server.supervisor.allocator import lacks_allocator_settings, with_allocator_settings
from tiergate_server.supervisor.free_ports import choose_free_ports
from tiergate_server.worker import Worker

_logger = logging.getLogger(__name__)

_WELCOME = """
  Tiergate is running. In another terminal:
{target}
    tiergate status               both planes at a glance
    tiergate sample sample        make a sample Kafka partition directory
    tiergate put sample/orders-0  copy its segments into the remote tier
    tiergate ls                   what is there now

  Data is kept in {data_directory}. Ctrl-C stops both planes.

"""


def serve(
    plane: Annotated[Plane | None, typer.Argument(help="The one plane to run; both when it is left out.")] = None,
    *,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    ready_fd: Annotated[int | None, typer.Option("--ready-fd", hidden=True)] = None,
    lifeline_fd: Annotated[int | None, typer.Option("--lifeline-fd", hidden=True)] = None,
    worker: Annotated[int | None, typer.Option("--worker", hidden=True)] = None,
    worker_counts: Annotated[Path | None, typer.Option("--worker-counts", hidden=True)] = None,
) -> None:
    """Run the service: both planes, or the one that is named."""
    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    with exit_on_config_error():
        config = options.load()
        if plane is None:
            exit_code = _serve_both(options, config)
        elif plane is Plane.SEGMENTS and config.segments.workers > 1 and worker is None:
            exit_code = _serve_workers(options, config, ready_fd=ready_fd, lifeline_fd=lifeline_fd)
        else:
            me = None
            if worker is not None and worker_counts is not None:
                me = Worker(worker, config.segments.workers, worker_counts)
            exit_code = _serve_one(plane, options, config, ready_fd=ready_fd, lifeline_fd=lifeline_fd, worker=me)
    raise typer.Exit(exit_code)


def _warn_of_unreachable(*sections: MetadataConfig | SegmentsConfig) -> None:
    for section in sections:
        if not section.advertise and Address.parse(section.listen).is_every_interface:
            _logger.warning(
                "Clients on other machines cannot find %s, which is every interface: "
                "set `advertise` of that plane to the host and port that they shall use.",
                section.listen,
            )


def _serve_one(
    plane: Plane,
    options: ServerOptions,
    config: Config,
    *,
    ready_fd: int | None,
    lifeline_fd: int | None,
    worker: Worker | None,
) -> int:
    if plane is Plane.SEGMENTS and lacks_allocator_settings(os.environ):
        command = options.command(plane)
        for flag, fd in (("--ready-fd", ready_fd), ("--lifeline-fd", lifeline_fd)):
            command += [] if fd is None else [flag, str(fd)]
        os.execve(command[0], command, with_allocator_settings(os.environ))  # noqa: S606 (this very program)
    configure_logging(level=config.log_level, log_format=config.log_format, plane=str(plane))
    if ready_fd is None:
        _warn_of_unreachable(config.metadata, config.segments)
    from tiergate_server.app import run_plane  # noqa: PLC0415 (heavy: see the module's docstring)

    return run_plane(plane.value, config, on_ready=_ready_teller(ready_fd), lifeline_fd=lifeline_fd, worker=worker)


def _serve_workers(options: ServerOptions, config: Config, *, ready_fd: int | None, lifeline_fd: int | None) -> int:
    configure_logging(level=config.log_level, log_format=config.log_format, plane="segments")
    if ready_fd is None:
        _warn_of_unreachable(config.metadata, config.segments)
    from tiergate_server.cli.serve_workers import serve_workers  # noqa: PLC0415 (only where there are some)

    return serve_workers(options, config, on_ready=_ready_teller(ready_fd), lifeline_fd=lifeline_fd)


def _ready_teller(ready_fd: int | None) -> Callable[[dict[str, str]], None]:
    return _log_ready if ready_fd is None else _ready_writer(ready_fd)


def _log_ready(ready: dict[str, str]) -> None:
    _logger.info("The %s plane is ready at %s.", ready["plane"], ready["address"], extra={"metrics": ready["metrics"]})


def _ready_writer(ready_fd: int) -> Callable[[dict[str, str]], None]:
    def write(ready: dict[str, str]) -> None:
        # A supervisor that is gone has closed its end: the lifeline will tell.
        with suppress(BrokenPipeError), open(ready_fd, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(ready) + "\n")

    return write


def _serve_both(options: ServerOptions, config: Config) -> int:
    if config.metadata.listen == config.segments.listen and Address.parse(config.metadata.listen).port != 0:
        raise ConfigError(
            f"metadata.listen and segments.listen are both {config.metadata.listen}: give each plane a port of its own."
        )
    ports = choose_free_ports(
        {
            "metadata.listen": config.metadata.listen,
            "metadata.metrics": config.metadata.metrics,
            "segments.listen": config.segments.listen,
            "segments.metrics": config.segments.metrics,
        }
    )
    configure_logging(level=config.log_level, log_format=config.log_format, plane="both")
    _warn_of_unreachable(config.metadata, config.segments)
    supervisor = Supervisor(
        [
            PlaneCommand("metadata", options.command(Plane.METADATA, settings=ports), os.environ),
            PlaneCommand(
                "segments", options.command(Plane.SEGMENTS, settings=ports), with_allocator_settings(os.environ)
            ),
        ],
        drain_seconds=config.drain_seconds,
        on_all_ready=lambda ready: _announce(ready, config),
        on_back=lambda plane, ready: _logger.info("The %s plane is back at %s.", plane, ready["address"]),
    )
    return supervisor.run()


def _announce(ready: Mapping[str, Mapping[str, str]], config: Config) -> None:
    metadata, segments = ready["metadata"], ready["segments"]
    _logger.info(
        "Tiergate is ready: metadata at %s, segments at %s.",
        metadata["address"],
        segments["address"],
        extra={"metadata_metrics": metadata["metrics"], "segments_metrics": segments["metrics"]},
    )
    if sys.stderr.isatty():
        target = "" if metadata["address"] == DEFAULT_TARGET else f"\n    export TIERGATE_TARGET={metadata['address']}"
        typer.echo(_WELCOME.format(target=target, data_directory=config.data_directory), err=True, nl=False)
