"""`tiergate health`: asks one plane on this machine, by the server's own settings, whether it serves.

For probes of containers and init systems; people use `tiergate status`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tiergate_server.addresses import Address
from tiergate_server.cli.server_options import (
    Assignments,
    ConfigFile,
    DataDirectory,
    Plane,
    ServerOptions,
    exit_on_config_error,
)


def health(
    plane: Annotated[Plane, typer.Argument(help="The plane to ask.")],
    *,
    config_file: ConfigFile = None,
    assignments: Assignments = None,
    data_directory: DataDirectory = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the answer.")] = 5.0,
) -> None:
    """Exit with 0 when the plane on this machine serves, else with 1."""
    import grpc  # noqa: PLC0415 - gRPC takes a tenth of a second to import, and other commands do not need it
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    options = ServerOptions.of(config_file=config_file, assignments=assignments, data_directory=data_directory)
    with exit_on_config_error():
        config = options.load()
    listen = config.metadata.listen if plane is Plane.METADATA else config.segments.listen
    address = Address.parse(listen).to_connect_from_here()
    try:
        with grpc.insecure_channel(str(address)) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)  # its methods are made at run time, unknown to the types
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout)
    except grpc.RpcError as error:
        typer.echo(f"tiergate: the {plane} plane at {address} does not answer: {error.details()}.", err=True)
        raise typer.Exit(1) from error
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    typer.echo(f"The {plane} plane at {address} is {name}.")
    raise typer.Exit(0 if answer.status == health_pb2.HealthCheckResponse.SERVING else 1)
