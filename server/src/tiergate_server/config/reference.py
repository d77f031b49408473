"""Renders the schema as docs/configuration.md. It is prose about settings, never a second place that defines one."""

from __future__ import annotations

from collections.abc import Iterator

from tiergate_server.config.schema import Setting, settings

_INTRODUCTION = """\
# Configuration

<!-- Generated from tiergate_server.config by `make docs`: edit the code, not this file. -->

Everything has a default; with no configuration both planes run on this machine and keep their data in one directory.
A setting is given in a TOML file (`tiergate serve --config tiergate.toml`), overridden by an environment variable,
overridden by a flag (`--set metadata.listen=127.0.0.1:7500`, as often as needed; `--data-dir DIR` is short for
`--set data_directory=DIR`). `TIERGATE_CONFIG` names the file where no `--config` does. An unknown name in any of the
three is an error. `tiergate config` prints what is in effect and where each value came from.

```toml
data_directory = "/var/lib/tiergate"

[metadata]
listen = "0.0.0.0:7400"
advertise = "metadata.example.com:7400"

[segments]
listen = "0.0.0.0:7401"
advertise = "segments.example.com:7401"

[segments.limits]
uploads = 32
```

Sizes are in bytes and durations in seconds, as the names say. Where a table is given as text, in a variable or by
`--set`, it is a JSON object: `--set 'segments.topic_stores={"orders": "cold"}'`. IPv6 hosts stand in brackets:
`[::1]:7400`. A relative `data_directory` is relative to the directory in which the command is started.
"""

_TITLES = {
    "": "General",
    "metadata": "The metadata plane",
    "metadata.kafka": "The metadata log on Kafka",
    "metadata.snapshot": "Snapshots of the metadata",
    "metadata.limits": "Limits of the metadata plane",
    "segments": "The segment plane",
    "segments.s3": "Segments in S3",
    "segments.limits": "Limits of the segment plane",
    "segments.quota": "Quotas of the segment plane",
}


def reference() -> str:
    """The whole page, ending in a newline."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    sections: dict[str, list[Setting]] = {}
    for setting in settings():
        sections.setdefault(setting.key.rpartition(".")[0], []).append(setting)
    for name, members in sections.items():
        yield f"## {_TITLES[name]}\n"
        yield "| key | type | default | environment variable | meaning |"
        yield "|---|---|---|---|---|"
        yield from (_row(setting) for setting in members)
        yield ""


def _row(setting: Setting) -> str:
    default = f"`{setting.default}`" if setting.default else "empty"
    return f"| `{setting.key}` | {setting.kind.name} | {default} | `{setting.variable}` | {setting.meaning} |"
