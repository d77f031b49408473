"""What a command says beside its answer, on stderr: a sentence for people, one JSON object per line for programs."""

from __future__ import annotations

import json
import sys

from tiergate_server.cli.session import OutputFormat


def warn(message: str, output: OutputFormat) -> None:
    sys.stderr.write(
        json.dumps({"warning": message}) + "\n" if output is OutputFormat.JSON else f"tiergate: {message}\n"
    )
    sys.stderr.flush()
