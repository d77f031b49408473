"""The flags that say how a server is configured, shared by every command that needs its settings.

How a server is reached by a client is not configured here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tiergate_server.config import Config, ConfigError, load_config
from tiergate_server.config.loading import Origin, read_origins
from tiergate_server.supervisor import EXIT_CONFIG

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", envvar="TIERGATE_CONFIG", help="TOML file with settings."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as metadata.listen=127.0.0.1:7500; repeatable."),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Short for --set data_directory=DIR."),
]


class Plane(StrEnum):
    METADATA = "metadata"
    SEGMENTS = "segments"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    file: Path | None
    assignments: tuple[str, ...]

    @classmethod
    def of(
        cls, *, config_file: Path | None, assignments: list[str] | None, data_directory: Path | None
    ) -> ServerOptions:
        every = [*(assignments or ()), *(() if data_directory is None else (f"data_directory={data_directory}",))]
        return cls(file=config_file, assignments=tuple(every))

    def load(self) -> Config:
        """Raises ConfigError."""
        return load_config(file=self.file, environment=os.environ, overrides=self._overrides())

    def origins(self) -> dict[str, Origin]:
        """Raises ConfigError."""
        return read_origins(file=self.file, environment=os.environ, overrides=self._overrides())

    def command(self, plane: Plane, *, settings: Mapping[str, str] | None = None) -> list[str]:
        """What starts one plane with these options, and further settings, in a process of its own."""
        # -P: a module of the same name in the working directory must not take the place of ours.
        words = [sys.executable, "-P", "-m", "tiergate_server", "serve", str(plane)]
        if self.file is not None:
            words += ["--config", str(self.file)]
        for assignment in (*self.assignments, *(f"{key}={value}" for key, value in (settings or {}).items())):
            words += ["--set", assignment]
        return words

    def _overrides(self) -> dict[str, str]:
        overrides: dict[str, str] = {}
        for assignment in self.assignments:
            key, equals, value = assignment.partition("=")
            if not equals:
                raise ConfigError(f"--set {assignment} has no value: write it as --set {assignment}=VALUE.")
            overrides[key.strip()] = value
        return overrides


@contextmanager
def exit_on_config_error() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        typer.echo(f"tiergate: {error}", err=True)
        raise typer.Exit(EXIT_CONFIG) from error
