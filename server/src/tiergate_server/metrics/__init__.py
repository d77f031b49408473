"""Metrics for Prometheus: what the planes count, and the endpoint that shows it."""

from tiergate_server.metrics.endpoint import MetricsEndpoint, serve_metrics
from tiergate_server.metrics.planes import RpcMetrics, SegmentsMetrics, describe_process

__all__ = [
    "MetricsEndpoint",
    "RpcMetrics",
    "SegmentsMetrics",
    "describe_process",
    "serve_metrics",
]
