"""Says what to install where the extra `records` is missing; imported before anything that needs it."""

from __future__ import annotations

from importlib.util import find_spec

_missing = [name for name in ("numpy", "pyarrow") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"tiergate_client.records needs {' and '.join(_missing)}: install tiergate-client with its extra 'records'."
    )
