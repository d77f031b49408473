"""How a streamed call is given up. gRPC's own thread may be at work on it in the same moment."""

from __future__ import annotations

import threading
from typing import Final

import grpc

# gRPC ends a call on this side of the wire at once. Waited out only where its thread is gone, or is the one that waits.
_LONGEST_WAIT_S: Final = 1.0


def end_call(call: grpc.Call) -> None:
    """Cancels the call, and waits until gRPC's thread has let go of it.

    A program may end right after this. A thread that holds the call's lock then keeps it for good, and the interpreter,
    which takes that lock to free the call, never ends.
    """
    let_go = threading.Event()
    is_under_way = call.add_callback(let_go.set)
    call.cancel()
    if is_under_way:
        let_go.wait(_LONGEST_WAIT_S)
