"""Options that are given as KEY=VALUE, any number of times."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def parse_key_values(texts: Iterable[str] | None, *, option: str) -> dict[str, str]:
    """The last one counts where a key is repeated. Raises BadParameter that names the option."""
    parsed = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        parsed[key.strip()] = value.strip()
    return parsed
