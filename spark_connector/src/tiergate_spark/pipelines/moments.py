"""Moments as values of options; how they are written is told in `tiergate_client.moments`."""

from __future__ import annotations

import typer

from tiergate_client import moments


def parse_moment(text: str | None, *, option: str) -> int | None:
    """In milliseconds since the epoch; None is not given. Raises BadParameter that names the option."""
    try:
        return None if text is None else moments.parse_moment(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
