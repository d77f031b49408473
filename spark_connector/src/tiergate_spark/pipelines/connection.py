"""How pipelines reach Tiergate from the driver, with a clear word when nobody answers; tasks use `worker_client`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiergate_client import Tiergate, connect
from tiergate_client.errors import Unavailable
from tiergate_client.exit_codes import ExitCode
from tiergate_spark.options import Service
from tiergate_spark.pipelines.failures import PipelineFailed


@contextmanager
def connected(service: Service) -> Iterator[Tiergate]:
    """Raises PipelineFailed when the metadata plane is out of reach."""
    with connect(service.target, segments=service.segments, access=service.access) as tiergate:
        try:
            tiergate.server_info()
        except Unavailable as error:
            if error.reason:  # the server itself said so, hence it was reached
                raise
            raise PipelineFailed(
                f"cannot reach the metadata plane at {service.target}; start one, or name another with --target",
                exit_code=ExitCode.OUT_OF_REACH,
            ) from error
        yield tiergate
