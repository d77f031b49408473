"""Puts the configuration together: a TOML file, overridden by environment variables, overridden by flags.

What settings there are is `tiergate_server.config.schema`'s; this module knows none by name.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiergate_server.config.errors import ConfigError
from tiergate_server.config.schema import Config, Setting, default_data_directory, settings, subsections

# Set for the command line's own use: they say where a server is, not what it is.
CLI_VARIABLES = frozenset(
    {"TIERGATE_TARGET", "TIERGATE_SEGMENTS_TARGET", "TIERGATE_TIMEOUT", "TIERGATE_CONFIG", "TIERGATE_TRACEBACK"}
)

# Kubernetes puts these into every container of a namespace that has a Service named tiergate or tiergate-something.
_SERVICE_LINK = re.compile(
    r"TIERGATE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|TIERGATE_(\w+_)?PORT=(tcp|udp|sctp)://.*"
)

_SETTINGS = {setting.key: setting for setting in settings()}
_BY_VARIABLE = {setting.variable: setting for setting in _SETTINGS.values()}


@dataclass(frozen=True, slots=True)
class Origin:
    """A value that was given, and by whom: "file x.toml", "environment variable X" or "flag"."""

    value: Any
    source: str


def load_config(
    *, file: Path | None = None, environment: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Config:
    """The effective configuration; `overrides` are flags, by key. Raises ConfigError."""
    return build_config(read_origins(file=file, environment=environment, overrides=overrides), environment=environment)


def read_origins(
    *, file: Path | None, environment: Mapping[str, str], overrides: Mapping[str, str] | None
) -> dict[str, Origin]:
    """What was given, by key, with the stronger source in the place of the weaker. Raises ConfigError."""
    origins: dict[str, Origin] = {}
    if file is not None:
        origins.update(_from_file(file))
    origins.update(_from_environment(environment))
    origins.update(_from_flags(overrides or {}))
    return origins


def build_config(origins: Mapping[str, Origin], *, environment: Mapping[str, str]) -> Config:
    values = {key: origin.value for key, origin in origins.items()}
    values.setdefault("data_directory", default_data_directory(environment))
    built: Config = _build(Config, values, prefix="")
    return built


def _build(section: type, values: Mapping[str, Any], *, prefix: str) -> Any:
    own = {
        key.removeprefix(prefix): value
        for key, value in values.items()
        if key.startswith(prefix) and "." not in key.removeprefix(prefix)
    }
    nested = {name: _build(kind, values, prefix=f"{prefix}{name}.") for name, kind in subsections(section)}
    return section(**own, **nested)


def _from_file(file: Path) -> Iterator[tuple[str, Origin]]:
    source = f"file {file}"
    for key, value in _leaves(_parse_toml(file), prefix=""):
        setting = _SETTINGS.get(key)
        if setting is None:
            raise _unknown(key, source=source)
        yield key, Origin(_read(setting, setting.kind.read_toml, value, source=source), source)


def _parse_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The configuration file {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration file {file} is not valid TOML: {error}.") from error


def _leaves(table: Mapping[str, Any], *, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and value and key not in _SETTINGS:
            yield from _leaves(value, prefix=f"{key}.")
        elif not (value == {} and _is_section(key)):
            yield key, value


def _is_section(key: str) -> bool:
    return any(known.startswith(f"{key}.") for known in _SETTINGS)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Origin]]:
    for variable, text in environment.items():
        if not variable.startswith("TIERGATE_") or variable in CLI_VARIABLES:
            continue
        setting = _BY_VARIABLE.get(variable)
        source = f"environment variable {variable}"
        if setting is not None:
            yield setting.key, Origin(_read(setting, setting.kind.read_text, text, source=source), source)
        elif _SERVICE_LINK.fullmatch(f"{variable}={text}") is None:
            raise ConfigError(f"{variable} is in the environment but is not a setting{_hint(variable, _BY_VARIABLE)}")


def _from_flags(overrides: Mapping[str, str]) -> Iterator[tuple[str, Origin]]:
    for key, text in overrides.items():
        setting = _SETTINGS.get(key)
        if setting is None:
            raise _unknown(key, source="flag")
        yield key, Origin(_read(setting, setting.kind.read_text, text, source="flag"), "flag")


def _read(setting: Setting, reader: Any, value: object, *, source: str) -> Any:
    try:
        return reader(value)
    except ValueError as error:
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        raise ConfigError(f"{setting.key} = {shown} (from the {source}): {error}.") from None


def _unknown(key: str, *, source: str) -> ConfigError:
    if _is_section(key):
        return ConfigError(f"{key} (from the {source}) is a section, not a setting: give it keys of its own.")
    return ConfigError(f"{key} (from the {source}) is not a setting{_hint(key, _SETTINGS)}")


def _hint(name: str, known: Mapping[str, Setting]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else "; `tiergate config` lists all of them."
