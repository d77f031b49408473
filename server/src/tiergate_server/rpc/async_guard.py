"""The interceptor of the asynchronous server: limit, metrics, and errors as status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc
import grpc.aio

from tiergate_client.status import code_of, trailing_metadata
from tiergate_server.metrics import RpcMetrics
from tiergate_server.rpc.calls import CallRecord, ConcurrencyLimit, as_outside_error, is_exempt

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class AsyncGuard(grpc.aio.ServerInterceptor):
    def __init__(self, limit: ConcurrencyLimit, metrics: RpcMetrics) -> None:
        self._limit = limit
        self._metrics = metrics

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or is_exempt(method):
            return handler
        codecs = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), **codecs)
        return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), **codecs)

    def _unary(self, method: str, behaviour: Any) -> Any:
        async def call(request: Any, context: Context) -> Any:
            async with self._call(method, context):
                return await behaviour(request, context)

        return call

    def _stream(self, method: str, behaviour: Any) -> Any:
        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            async with self._call(method, context):
                async for answer in behaviour(request, context):
                    yield answer

        return call

    @asynccontextmanager
    async def _call(self, method: str, context: Context) -> AsyncIterator[None]:
        record = CallRecord(self._metrics, method)
        code = grpc.StatusCode.CANCELLED
        try:
            with self._limit.slot():
                yield
            code = grpc.StatusCode.OK
        except Exception as failure:  # noqa: BLE001 (the edge: whatever happens becomes a status)
            error = as_outside_error(failure, method)
            code = code_of(error)
            await context.abort(code, error.message, trailing_metadata(error))
        finally:
            record.finish(code.name)
