"""Metrics for Prometheus: what the planes count, and the endpoint that shows it."""

from tiergate_server.metrics.endpoint import MetricsEndpoint, serve_metrics
from tiergate_server.metrics.planes import CacheMetrics, RpcMetrics, SegmentsMetrics, describe_build, describe_process

__all__ = [
    "CacheMetrics",
    "MetricsEndpoint",
    "RpcMetrics",
    "SegmentsMetrics",
    "describe_build",
    "describe_process",
    "serve_metrics",
]
