"""`python -m tiergate_client.records.compile_kernels` fills numba's cache, so that no later process has to compile.

For images and for servers that have just started; whoever decodes loads what is there by himself (`engines.py`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

from tiergate_client.kernel_mark import set_filled
from tiergate_client.records.kernel_loading import import_framing_kernels, import_kernels
from tiergate_client.records.scratch_cache import is_filled_but_read_only

UNTIL_STDIN_ENDS: Final = "--until-stdin-ends"
"""Ends at once, with nothing said, when whoever holds the other end of the standard input is gone."""


def main(arguments: Sequence[str]) -> str | None:
    """Why nothing is kept, if that is so."""
    if UNTIL_STDIN_ENDS in arguments:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        if not is_filled_but_read_only():
            import_kernels()
            import_framing_kernels()
            set_filled()
    except ImportError as error:
        return f"The loops over records can not be compiled: {error}. Install numba, and what it needs."
    except (RuntimeError, OSError) as error:
        return f"What numba compiles can not be kept: {error}. Set NUMBA_CACHE_DIR to a directory that can be written."
    return None


def _end_with_stdin() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
