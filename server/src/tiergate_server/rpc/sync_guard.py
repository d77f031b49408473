"""The interceptor of the synchronous server: limits, stalls, metrics, and errors as status.

grpcio waits for the message of a unary request in a thread of the pool, before any behaviour of ours runs: who sends
headers only would hold a thread that no limit counts and nobody watches. So every method is served as one that takes a
stream, which is the same on the wire, and its one message is taken here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from tiergate_client.errors import InvalidField
from tiergate_client.status import code_of, trailing_metadata
from tiergate_server.metrics import RpcMetrics
from tiergate_server.rpc.calls import CallLimits, CallRecord, as_outside_error
from tiergate_server.rpc.stalls import PeerWatch, StallGuard
from tiergate_server.segments.call_deadline import call_deadline

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Messages = Iterator[bytes]


class SyncGuard(grpc.ServerInterceptor):
    def __init__(self, limits: CallLimits, *, stalls: StallGuard, metrics: RpcMetrics) -> None:
        self._limits = limits
        self._stalls = stalls
        self._metrics = metrics

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        method, serializer = handler_call_details.method, handler.response_serializer
        if not handler.response_streaming:
            return grpc.stream_unary_rpc_method_handler(self._one_answer(method, handler), None, serializer)
        if getattr(handler.unary_stream, "experimental_non_blocking", False):
            return grpc.stream_stream_rpc_method_handler(self._later_answers(method, handler), None, serializer)
        return grpc.stream_stream_rpc_method_handler(self._answers(method, handler), None, serializer)

    def _one_answer(self, method: str, handler: Handler) -> Callable[..., Any]:
        behaviour: Any = handler.unary_unary or handler.stream_unary

        def call(messages: Messages, context: grpc.ServicerContext) -> Any:
            with self._call(method, context) as peer:
                return behaviour(_argument(handler, peer.receiving(messages)), context)

        return call

    def _answers(self, method: str, handler: Handler) -> Callable[..., Iterator[Any]]:
        behaviour: Any = handler.unary_stream or handler.stream_stream

        def call(messages: Messages, context: grpc.ServicerContext) -> Iterator[Any]:
            with self._call(method, context) as peer:
                yield from peer.sending(behaviour(_argument(handler, peer.receiving(messages)), context))

        return call

    def _later_answers(self, method: str, handler: Handler) -> Callable[..., None]:
        """For grpcio's non-blocking streams (health's Watch), which hold a thread for their request only."""
        behaviour: Any = handler.unary_stream

        def call(messages: Messages, context: grpc.ServicerContext, send: Callable[[Any], None]) -> None:
            with self._call(method, context) as peer:
                behaviour(_argument(handler, peer.receiving(messages)), context, send)

        call.experimental_non_blocking = True  # type: ignore[attr-defined]
        return call

    @contextmanager
    def _call(self, method: str, context: grpc.ServicerContext) -> Iterator[PeerWatch]:
        record = CallRecord(self._metrics, method)
        code = grpc.StatusCode.CANCELLED
        try:
            with (
                self._limits.of(method).slot(),
                self._stalls.watch(context) as peer,
                call_deadline(context.time_remaining()),
            ):
                yield peer
            code = context.code() or grpc.StatusCode.OK  # type: ignore[attr-defined]  # the stubs lack it
        except grpc.RpcError:  # how grpcio wakes up the thread of a call that is over
            raise
        except Exception as failure:  # noqa: BLE001 (the edge: whatever happens becomes a status)
            error = as_outside_error(failure, method)
            if context.is_active():
                code = code_of(error)
            context.set_trailing_metadata(trailing_metadata(error))
            context.abort(code_of(error), error.message)
        finally:
            record.finish(code.name)


def _argument(handler: Handler, messages: Messages) -> Any:
    """What the behaviour takes: the request, or the stream of them."""
    if handler.request_streaming:
        return (_parsed(handler, message) for message in messages)
    message = next(messages, None)
    if message is None:
        raise InvalidField.of("message", "the call ended without its request")
    return _parsed(handler, message)


def _parsed(handler: Handler, message: bytes) -> Any:
    if handler.request_deserializer is None:
        return message
    try:
        return handler.request_deserializer(message)
    except DecodeError:
        raise InvalidField.of("message", "these bytes are no request of this call") from None
