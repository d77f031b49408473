"""`tiergate config`: the settings that are in effect, and where each came from. It starts and connects to nothing."""

from __future__ import annotations

import os
import re
from typing import Any

from tiergate_server.cli.console import Column, print_table, stdout_console
from tiergate_server.cli.server_options import (
    Assignments,
    ConfigFile,
    DataDirectory,
    ServerOptions,
    exit_on_config_error,
)
from tiergate_server.cli.session import Output, OutputFormat, print_json
from tiergate_server.config.loading import build_config
from tiergate_server.config.schema import Config, settings

_SECRET = re.compile("password|secret|key|token|sasl.oauthbearer|jaas", re.IGNORECASE)


def config(
    *,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    output: Output = OutputFormat.HUMAN,
) -> None:
    """Show the server's settings in effect and where each came from."""
    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    with exit_on_config_error():
        origins = options.origins()
        effective = build_config(origins, environment=os.environ)
    rows = [
        {
            "key": setting.key,
            "value": _value(effective, setting.key),
            "source": origins[setting.key].source if setting.key in origins else "default",
        }
        for setting in settings()
    ]
    if output is OutputFormat.JSON:
        print_json({"settings": rows})
        return
    columns = (Column("KEY", style="bold"), Column("VALUE", folds=True), Column("FROM"))
    print_table(stdout_console(), columns, [(row["key"], str(row["value"]), row["source"]) for row in rows])


def _value(effective: Config, key: str) -> Any:
    """The setting's value, with what short forms and empty ones stand for written out."""
    written_out = {
        "data_directory": str(effective.data_directory),
        "metadata.advertise": effective.metadata.advertise or effective.metadata.listen,
        "metadata.log": effective.metadata_backend,
        "segments.advertise": effective.segments.advertise or effective.segments.listen,
        "segments.store": effective.segments_backend,
    }
    if key in written_out:
        return written_out[key]
    value: Any = effective
    for name in key.split("."):
        value = getattr(value, name)
    if isinstance(value, dict):
        return {name: "(hidden)" if _SECRET.search(name) else setting for name, setting in value.items()}
    return value
