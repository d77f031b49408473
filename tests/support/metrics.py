"""What a running plane counts, read from its metrics endpoint."""

from __future__ import annotations

from urllib.request import urlopen

from support.planes import PlaneProcess


def metric(plane: PlaneProcess, name: str) -> float:
    """The sum over all labels."""
    with urlopen(f"http://{plane.metrics}/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


def calls_in_flight(plane: PlaneProcess) -> float:
    return metric(plane, "tiergate_rpc_in_flight")
