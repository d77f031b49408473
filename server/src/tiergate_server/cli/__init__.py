"""The command line `tiergate`."""

import os

# gRPC's core writes lines of its own to stderr, beside the one sentence that we write. Asked when it loads.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from tiergate_server.cli.application import app, main

__all__ = ["app", "main"]
