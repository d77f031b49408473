"""How the driver asks Tiergate: again while a plane is away, and with failures in the words of Spark's options.

Executors do not come here: what they read is resumed by the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Literal, TypeVar

from tiergate_client import Tiergate
from tiergate_client.errors import InvalidField, NotOffered, TiergateError, Unavailable
from tiergate_client.outages import ride_out
from tiergate_spark.options import Service

PATIENCE_S: Final = 30.0
"""A plane that is restarted, or moved to another node, is back by then; Spark would end the query at once."""

_NAMES: Final = {"metadata": "metadata plane", "segments": "segment plane"}

_log = logging.getLogger("tiergate_spark")

Answer = TypeVar("Answer")


def answered(ask: Callable[[], Answer], *, client: Tiergate, service: Service) -> Answer:
    """What `ask` returns, which may be done anew. Errors come without the calls behind them: Spark would print all."""

    def tell(failure: Unavailable) -> None:
        _log.warning("%s; it is asked again for up to %d seconds", failure.message, PATIENCE_S)

    try:
        return ride_out(ask, patience_s=PATIENCE_S, on_outage=tell)
    except Unavailable as error:
        if error.reason:  # the server itself said so, hence it was reached
            raise error.with_traceback(None) from None
        raise _out_of_reach(client, service, error) from None
    except NotOffered as error:
        raise _wrong_plane(client, service) or error.with_traceback(None) from None
    except TiergateError as error:
        raise error.with_traceback(None) from None


def missing_plane(client: Tiergate, service: Service, *, option_words: str) -> tuple[str, str] | None:
    """Which plane nobody answers for, in a sentence, and its address; None when nobody names the segment plane.

    The client does not say which one it missed: it is the segment plane when the metadata plane answers. `option_words`
    are what stands before the name of an option, where it was given.
    """
    plane, option, address = "metadata", "target", service.target
    try:
        learned = client.server_info("metadata").segments_address
    except TiergateError:
        pass
    else:
        plane, option, address = "segments", "segments", service.segments or learned
    if not address:
        return None
    told = f"cannot reach the {_NAMES[plane]} at {address}; start one, or name another with {option_words}{option}"
    return told, address


def _out_of_reach(client: Tiergate, service: Service, error: Unavailable) -> Unavailable:
    missing = missing_plane(client, service, option_words="the option ")
    if missing is None:  # the error says so
        return error
    told, address = missing
    return Unavailable(told, details={"address": address, "cause": error.message})


def _wrong_plane(client: Tiergate, service: Service) -> InvalidField | None:
    """None when the planes are those that the options say."""
    named: tuple[tuple[Literal["metadata", "segments"], str, str | None], ...] = (
        ("metadata", "target", service.target),
        ("segments", "segments", service.segments),
    )
    for plane, option, address in named:
        if address is None:
            continue
        try:
            found = client.server_info(plane).plane
        except NotOffered:
            return InvalidField.of(option, f"what answers at {address} is no {_NAMES[plane]} of Tiergate")
        except TiergateError:
            continue
        if found != plane:
            return InvalidField.of(
                option, f"{address} is a {_NAMES[found]}; give the address of the {_NAMES[plane]} instead"
            )
    return None
