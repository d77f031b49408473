"""What is done when records that should be read are gone: a query fails, or says so once and goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tiergate_client.errors import OffsetOutOfRange, SegmentNotFound
from tiergate_client.records.read_bounds import LOSS_IS_ACCEPTED_BY
from tiergate_client.records.read_split import SegmentRange

_log = logging.getLogger("tiergate_spark")


class DataLoss:
    """The option `failOnDataLoss`."""

    def __init__(self, *, is_error: bool) -> None:
        self._is_error = is_error
        self._told: set[str] = set()

    def report(self, fact: str, *, offsets: int | None = None) -> None:
        """Raises OffsetOutOfRange unless loss is accepted; `offsets` is how many are lost, where that is known."""
        if self._is_error:
            raise OffsetOutOfRange(f"{fact}; failOnDataLoss=false goes on without what is lost")
        if fact not in self._told:  # at every trigger it would be the same again
            self._told.add(fact)
            _log.warning("%s: %s skipped", fact, "what is lost is" if offsets is None else f"{offsets} offsets are")


def tell_gone(gone: SegmentRange, error: SegmentNotFound) -> None:
    fact = "what was not read of the offsets %d to %d of %s is skipped, since it was deleted after it was planned: %s"
    _log.warning(fact, gone.start_offset, gone.stop_offset - 1, gone.segment.partition, error.message)


@contextmanager
def in_words_of_spark() -> Iterator[None]:
    """The way out of an OffsetOutOfRange has another name as an option of Spark than it has in Python."""
    try:
        yield
    except OffsetOutOfRange as error:
        message = error.message.replace(LOSS_IS_ACCEPTED_BY, "failOnDataLoss=false")
        raise OffsetOutOfRange(message, details=error.details) from None
