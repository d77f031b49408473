"""Which program this process runs: one of PySpark's own, or somebody's script or notebook."""

from __future__ import annotations

import sys


def running_program() -> str:
    """The name of the module that was started with `python -m`; empty for anything else."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "" if spec is None else spec.name
