"""What an engine does, and which one is taken; how is theirs: `numba_engine.py` and `numpy_engine.py` behave alike."""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, Literal, Protocol, TypeAlias

from tiergate_client.records.batch_format import Codec
from tiergate_client.records.batch_walking import WalkedBatches
from tiergate_client.records.record_columns import Bytes, DefectiveBatch, Longs, RecordColumns, Wanted

_logger = logging.getLogger(__name__)

EngineName: TypeAlias = Literal["numba", "numpy"]

HEADER_SPAN_ROWS: Final = 4
"""Of the spans of headers: start and length of the key and of the value."""


class Frames(Protocol):
    """Decompresses what producers write as a rule, many batches in one call, without the GIL."""

    codecs: frozenset[Codec]

    def decompress(
        self, data: Bytes, batches: Longs, out: Bytes, *, used: int, enough: int, most: int, spans: Longs
    ) -> tuple[int, int]:
        """Appends to what is used of `out`, until that is enough; how many batches, and how much is used then.

        Each gets `most` at most. It ends before a batch that has no room, is damaged or unusual in any way, or of
        another codec: of such a one it is not known here what is wrong, if anything. `spans` are start and end of each.
        """
        ...


class Engine(Protocol):
    """Loops over batches and records; arrays are contiguous and of the right size. All may run without the GIL."""

    def walk_batches(self, data: Bytes) -> WalkedBatches:
        """The batches at the beginning of the data."""
        ...

    def frames(self) -> Frames | None:
        """For one thread; None where every batch is left to pyarrow."""
        ...

    def read_records(self, data: Bytes, batches: Longs, wanted: Wanted) -> RecordColumns | DefectiveBatch:
        """All records of the batches, which have one at least; or of which batch they can not be read.

        Of the table of batches the first RECORD_COLUMNS are read (`batch_table.py`). Sound are batches whose records
        fill their bytes exactly and whose offsets ascend within the batch.
        """
        ...

    def index_headers(self, data: Bytes, headers: Longs, header_spans: Longs) -> None:
        """Fills in the spans of the headers of sound records; see RecordColumns.headers."""
        ...

    def gather(self, data: Bytes, starts: Longs, lengths: Longs) -> Any:
        """The spans, which ascend, as an Arrow array of type binary. One of the length -1 is null."""
        ...


@cache
def engine(name: EngineName | None = None) -> Engine:
    """The compiled one where numba is there and can work. Its first loading on a machine compiles for seconds."""
    if name == "numba":
        return _numba_engine()
    if name is None:
        return _fastest_engine()
    from tiergate_client.records.numpy_engine import NumpyEngine  # noqa: PLC0415 - needed where numba is missing only

    return NumpyEngine()


@cache  # also for `engine()`, which is another call than `engine(None)`
def _fastest_engine() -> Engine:
    try:
        return _numba_engine()
    except ImportError as error:
        if find_spec("numba") is not None:
            _logger.warning("Records are decoded without numba, many times slower, since it can not load: %s", error)
    except (RuntimeError, OSError) as error:
        _logger.warning("Records are decoded without numba, many times slower, since it can not compile: %s", error)
    return engine("numpy")


def _numba_engine() -> Engine:
    from tiergate_client.records.numba_engine import NumbaEngine  # noqa: PLC0415 - numba is optional and slow to load

    return NumbaEngine()
