"""What the planes count, and the endpoint that serves it."""

from __future__ import annotations

import http.client
import sys

import pytest
from prometheus_client import CollectorRegistry

from tiergate_server.addresses import Address
from tiergate_server.config import ConfigError
from tiergate_server.metrics import RpcMetrics, SegmentsMetrics, describe_process, serve_metrics


def get(address: str, path: str) -> tuple[int, str]:
    parsed = Address.parse(address)
    connection = http.client.HTTPConnection(parsed.host, parsed.port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_rpc_metrics_count_calls_by_method_and_code() -> None:
    registry = CollectorRegistry()
    metrics = RpcMetrics(registry)
    metrics.started("GetSegment")
    metrics.started("GetSegment")
    metrics.finished("GetSegment", code="NOT_FOUND", seconds=0.002)
    value = registry.get_sample_value
    assert value("tiergate_rpc_in_flight", {"method": "GetSegment"}) == 1
    assert value("tiergate_rpc_requests_total", {"method": "GetSegment", "code": "NOT_FOUND"}) == 1
    assert value("tiergate_rpc_seconds_bucket", {"method": "GetSegment", "le": "0.001"}) == 0
    assert value("tiergate_rpc_seconds_bucket", {"method": "GetSegment", "le": "0.0025"}) == 1


def test_two_registries_do_not_share_counts() -> None:
    first, second = CollectorRegistry(), CollectorRegistry()
    SegmentsMetrics(first).received_bytes.inc(5)
    SegmentsMetrics(second)
    assert first.get_sample_value("tiergate_segments_received_bytes_total") == 5
    assert second.get_sample_value("tiergate_segments_received_bytes_total") == 0


def test_endpoint_serves_all_metrics_at_its_path_only() -> None:
    registry = CollectorRegistry()
    describe_process(registry, plane="metadata", version="1.2.3")
    RpcMetrics(registry)
    SegmentsMetrics(registry).sent_bytes.inc(7)
    endpoint = serve_metrics("127.0.0.1:0", registry)
    try:
        status, body = get(endpoint.address, "/metrics")
        assert status == 200
        assert 'tiergate_build_info{plane="metadata",version="1.2.3"} 1.0' in body
        assert "tiergate_segments_sent_bytes_total 7.0" in body
        assert "process_resident_memory_bytes" in body or sys.platform != "linux"
        assert get(endpoint.address, "/")[0] == 404
        assert get(endpoint.address, "/metrics/more")[0] == 404
    finally:
        endpoint.close()
    with pytest.raises(ConnectionRefusedError):
        get(endpoint.address, "/metrics")


def test_endpoint_on_an_address_in_use_is_refused_by_setting() -> None:
    endpoint = serve_metrics("127.0.0.1:0", CollectorRegistry())
    try:
        with pytest.raises(
            ConfigError, match=rf"metadata\.metrics = {endpoint.address} cannot be listened on \(Address"
        ):
            serve_metrics(endpoint.address, CollectorRegistry(), setting="metadata.metrics")
    finally:
        endpoint.close()


def test_endpoint_listens_on_ipv6() -> None:
    endpoint = serve_metrics("[::1]:0", CollectorRegistry())
    try:
        assert endpoint.address.startswith("[::1]:")
        assert get(endpoint.address, "/metrics")[0] == 200
    finally:
        endpoint.close()
