"""The segment plane as several processes that share its port: they are started, watched and shown as one plane.

What each of them does is a plane's own business; it is told by `--worker` that it is not alone.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from tiergate_server.cli.server_options import Plane, ServerOptions
from tiergate_server.config import Config
from tiergate_server.metrics import describe_build, serve_metrics
from tiergate_server.metrics.workers import workers_registry
from tiergate_server.supervisor import PlaneCommand, Supervisor, watch_lifeline
from tiergate_server.supervisor.allocator import with_allocator_settings
from tiergate_server.supervisor.shared_port import SharedPort

_logger = logging.getLogger(__name__)

# Less than a supervisor of both planes leaves this process, which has to see the end of its workers.
_KILL_MARGIN_SECONDS = 3.0
# How long the workers of a process that was killed, and in whose place this one was started, may still listen.
_WORKERS_LEAVE_SECONDS = 5.0


def serve_workers(
    options: ServerOptions, config: Config, *, on_ready: Callable[[dict[str, str]], None], lifeline_fd: int | None
) -> int:
    """Serves until SIGTERM, SIGINT or the lifeline's end. Raises ConfigError when the port is not free."""
    if lifeline_fd is not None:
        watch_lifeline(lifeline_fd, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with ExitStack() as resources:
        patience_s = 0.0 if lifeline_fd is None else _WORKERS_LEAVE_SECONDS
        port = resources.enter_context(
            SharedPort(config.segments.listen, setting="segments.listen", patience_s=patience_s)
        )
        counts = Path(resources.enter_context(TemporaryDirectory(prefix="tiergate-metrics-")))
        metrics_address = ""

        def announce() -> None:
            on_ready({"plane": "segments", "address": str(port.address), "metrics": metrics_address})

        supervisor = Supervisor(
            [
                _command(options, number, address=str(port.address), counts=counts)
                for number in range(1, config.segments.workers + 1)
            ],
            drain_seconds=config.drain_seconds,
            on_all_ready=lambda _: announce(),
            on_back=lambda number, _: _logger.info("Worker %s of the segment plane is back.", number),
            first_alone=True,
            kill_margin_seconds=_KILL_MARGIN_SECONDS,
        )
        if config.segments.metrics:
            registry = workers_registry(counts, pids=supervisor.pids)
            describe_build(registry, plane="segments", version=version("tiergate-server"))
            endpoint = serve_metrics(config.segments.metrics, registry, setting="segments.metrics")
            resources.callback(endpoint.close)
            metrics_address = endpoint.address
        return supervisor.run()


def _command(options: ServerOptions, number: int, *, address: str, counts: Path) -> PlaneCommand:
    words = options.command(Plane.SEGMENTS, settings={"segments.listen": address, "segments.metrics": ""})
    words += ["--worker", str(number), "--worker-counts", str(counts)]
    return PlaneCommand(
        str(number), words, with_allocator_settings(os.environ), title=f"worker {number} of the segment plane"
    )
