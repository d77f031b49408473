"""Spark as several processes that have the package from a zip: losing one of them, or the service, loses no row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gated_proxy import GatedProxy, gated_proxy
from support.planes import Planes, running_planes
from support.s3_server import S3Server, s3_environment
from support.spark_cluster import SparkCluster, running_cluster
from support.tiering import tier_segments
from support.waiting import wait_until
from tiergate_client import connect
from tiergate_client.records import decode_batches
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.shipping import SHIPPED_NAME, write_package_zip

pytestmark = pytest.mark.timeout(300)

EXECUTORS = 2
HOLD_AFTER_BYTES = 1536 * 1024
"""In the middle of the second split of a worker."""


@pytest.fixture(scope="module")
def planes(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    with pytest.MonkeyPatch.context() as patch:
        s3_environment(patch)
        with running_planes(tmp_path_factory.mktemp("planes"), **s3.new_bucket().plane_settings()) as running:
            yield running


@pytest.fixture(scope="module")
def offsets(planes: Planes, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """Of all records that are in the tier."""
    found: list[int] = []
    with connect(planes.target) as client:
        sample = write_sample(tmp_path_factory.mktemp("kafka"), segments=8)
        for segment in tier_segments(client, sample.directory):
            with client.storage.fetch_segment(segment) as stream:
                for batch in decode_batches(stream.read(), columns=("offset",)):
                    found += batch["offset"].to_pylist()
    return found


@pytest.fixture(scope="module")
def proxy(planes: Planes) -> Iterator[GatedProxy]:
    with gated_proxy(planes.segments.address, hold_after_bytes=HOLD_AFTER_BYTES) as running:
        yield running


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_package_zip(tmp_path_factory.mktemp("package") / "tiergate-spark.zip")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), package) as running:
        yield running


@pytest.fixture
def options(planes: Planes, proxy: GatedProxy) -> dict[str, str]:
    """Through the service, which can be held."""
    through_the_proxy = {"segments": proxy.address, "access": "service"}
    return {"target": planes.target, "subscribe": "orders", "splitBytes": "1m", **through_the_proxy}


def begin_and_hold(cluster: SparkCluster, proxy: GatedProxy, options: dict[str, str]) -> None:
    """Returns when every executor is in the middle of a split."""
    proxy.shut()
    cluster.begin_read(options)
    wait_until(lambda: proxy.held == EXECUTORS, timeout_s=60)


def test_executors_read_with_the_package_from_the_zip(
    cluster: SparkCluster, package: Path, options: dict[str, str], offsets: list[int]
) -> None:
    assert Path(cluster.package).parents[1].name == package.name
    cluster.begin_read(options)
    assert sorted(cluster.offsets()) == offsets


def test_executors_read_past_the_service(cluster: SparkCluster, planes: Planes, offsets: list[int]) -> None:
    cluster.begin_read({"target": planes.target, "subscribe": "orders", "splitBytes": "1m", "access": "direct"})
    assert sorted(cluster.offsets()) == offsets


def test_executors_read_a_stream(cluster: SparkCluster, planes: Planes, offsets: list[int], tmp_path: Path) -> None:
    per_batch = {"maxOffsetsPerTrigger": str(len(offsets) // 2), "startingOffsets": "earliest"}
    cluster.begin_read(
        {"target": planes.target, "subscribe": "orders", "checkpoint": str(tmp_path / "checkpoint"), **per_batch}
    )
    assert sorted(cluster.offsets()) == offsets


def test_package_may_be_shipped_twice_and_beside_one_that_was_submitted(cluster: SparkCluster, package: Path) -> None:
    """Spark's file server refuses another file of a name that it has. A worker that lives on keeps what it imported."""
    for imported_from in (cluster.ship(), cluster.ship()):
        assert Path(imported_from).parents[1].name in (package.name, SHIPPED_NAME)


def test_killed_python_workers_cost_a_retry_and_no_row(
    cluster: SparkCluster, proxy: GatedProxy, options: dict[str, str], offsets: list[int]
) -> None:
    begin_and_hold(cluster, proxy, options)
    assert cluster.kill_python_workers() >= EXECUTORS
    proxy.open()
    assert sorted(cluster.offsets()) == offsets


def test_killed_segment_plane_is_waited_for_and_costs_no_row(
    cluster: SparkCluster, proxy: GatedProxy, planes: Planes, options: dict[str, str], offsets: list[int]
) -> None:
    begin_and_hold(cluster, proxy, options)
    planes.segments.kill()
    proxy.open()
    planes.segments.start()
    assert sorted(cluster.offsets()) == offsets


def test_killed_executor_costs_a_retry_and_no_row(
    cluster: SparkCluster, proxy: GatedProxy, options: dict[str, str], offsets: list[int]
) -> None:
    begin_and_hold(cluster, proxy, options)
    assert cluster.kill_executor() == 1
    proxy.open()
    assert sorted(cluster.offsets()) == offsets
