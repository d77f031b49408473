"""The metrics of several processes of one plane, counted by each and shown as one.

What is counted is `tiergate_server.metrics.planes`'s; of what a collector of its own tells, a worker shows nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

_DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def count_as_worker(number: int, directory: Path) -> None:
    """From now on this process counts into files in `directory`. Before any metric is made.

    The files are those of the number, not of the process: a worker that was started again goes on counting where the
    one before it was, but for what was in flight then.
    """
    os.environ[_DIRECTORY_VARIABLE] = str(directory)
    mark_process_dead(number, str(directory))  # type: ignore[no-untyped-call]  # as the next ones: the library has none
    values.ValueClass = values.MultiProcessValue(process_identifier=lambda: number)  # type: ignore[no-untyped-call]


def forget_counts(directory: Path) -> None:
    """For workers that outlived the process which showed their counts: what is gone already is fine."""
    shutil.rmtree(directory, ignore_errors=True)


def workers_registry(directory: Path, *, pids: Callable[[], Mapping[str, int]]) -> CollectorRegistry:
    """What all workers have counted together; `pids` gives the process of each, by name, at this moment."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(directory))  # type: ignore[no-untyped-call]
    registry.register(_WorkerProcesses(pids))
    return registry


class _WorkerProcesses(Collector):
    """The memory, processor time and files of each worker."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids

    def describe(self) -> Iterator[Metric]:
        yield from ()  # otherwise the registry collects once to know the names

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, pid in self._pids().items():
            for family in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                whole = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    whole.add_sample(sample.name, {"worker": name}, sample.value)
        yield from families.values()
