"""The command line `tiergate`."""

from tiergate_server.cli.application import app, main

__all__ = ["app", "main"]
