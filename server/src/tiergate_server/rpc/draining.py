"""Stopping a server: calls in flight finish, new ones are refused.

A stream without an end of its own, such as a watch of health, is not waited for: once every counted call is over, what
is left has a moment to be sent, and the server stops.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

from tiergate_server.rpc.calls import ConcurrencyLimit

_LOOK_AGAIN_S = 0.02
# A call is not counted any more when its answer is made; the answer still has to leave.
_LEAVE_S = 1.0


def drain(server: grpc.Server, calls: ConcurrencyLimit, *, seconds: float) -> None:
    stopped = server.stop(seconds)
    while not stopped.wait(_LOOK_AGAIN_S):
        if calls.is_idle:
            server.stop(min(seconds, _LEAVE_S)).wait()


async def drain_async(server: grpc.aio.Server, calls: ConcurrencyLimit, *, seconds: float) -> None:
    stopping = asyncio.create_task(server.stop(seconds))
    while not (await asyncio.wait((stopping,), timeout=_LOOK_AGAIN_S))[0]:
        if calls.is_idle:
            await server.stop(min(seconds, _LEAVE_S))
