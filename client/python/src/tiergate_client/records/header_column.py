"""The headers of records as an Arrow array of lists; where they stand in the bytes is the engine's to find."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tiergate_client.records.arrow_arrays import from_numpy
from tiergate_client.records.columns import HEADERS_TYPE
from tiergate_client.records.engines import HEADER_SPAN_ROWS, Engine
from tiergate_client.records.record_columns import Bytes, RecordColumns

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def headers_array(engine: Engine, data: Bytes, columns: RecordColumns) -> Any:
    """Of columns with headers. A record without any has an empty list."""
    headers = columns.headers
    assert headers is not None  # noqa: S101 - for the type checker
    ends = np.zeros(headers.shape[1] + 1, np.int32)
    np.cumsum(headers[1], out=ends[1:])
    header_spans = np.empty((HEADER_SPAN_ROWS, int(ends[-1])), np.int64)
    engine.index_headers(data, headers, header_spans)
    keys = _as_text(engine.gather(data, header_spans[0], header_spans[1]))
    values = engine.gather(data, header_spans[2], header_spans[3])
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(from_numpy(ends, pa.int32()), structs, type=HEADERS_TYPE)


def _as_text(keys: Any) -> Any:
    """What is not UTF-8 is replaced, as Kafka's consumer does."""
    text = keys.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_replaced(key) for key in keys.to_pylist()], pa.string())
    return text


def _replaced(key: bytes) -> str:
    """As Java's `String(bytes, UTF_8)`: an encoded surrogate, also a cut one, is one mistake, and two or three here."""
    return _SURROGATE.sub(_REPLACEMENT.encode(), key).decode("utf-8", "replace")
