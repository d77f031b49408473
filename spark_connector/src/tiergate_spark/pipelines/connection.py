"""How pipelines reach Tiergate from the driver, with a clear word when nobody answers; tasks use `worker_client`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiergate_client import Tiergate, connect
from tiergate_client.errors import Unavailable
from tiergate_client.exit_codes import ExitCode
from tiergate_spark.driver_calls import missing_plane
from tiergate_spark.options import Service
from tiergate_spark.pipelines.failures import PipelineFailed


@contextmanager
def connected(service: Service) -> Iterator[Tiergate]:
    """Raises PipelineFailed when a plane is out of reach, also for what its body asks it; or when it is another one."""
    with connect(service.target, segments=service.segments, access=service.access) as tiergate:
        try:
            if tiergate.server_info().plane != "metadata":
                raise PipelineFailed(
                    f"{service.target} is a segment plane; --target wants the metadata plane", exit_code=ExitCode.USAGE
                )
            yield tiergate
        except Unavailable as error:
            if error.reason:  # the server itself said so, hence it was reached
                raise
            missing = missing_plane(tiergate, service, option_words="--")
            if missing is None:  # the error says so
                raise
            raise PipelineFailed(missing[0], exit_code=ExitCode.OUT_OF_REACH) from error
