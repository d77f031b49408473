"""Arrow arrays around numpy's, and back, without a copy; what they hold is decided elsewhere.

`pyarrow.array`, `scalar`, `repeat` and `to_numpy` would import pandas, where it is installed: a third of a second and
more in every new worker process of Spark's, which has no other use for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def from_numpy(values: npt.NDArray[Any], arrow_type: Any) -> Any:
    """An array without nulls, of a type whose values are as wide as numpy's."""
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def booleans(values: npt.NDArray[np.bool_]) -> Any:
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def longs(array: Any) -> npt.NDArray[np.int64]:
    """The values of an int64 array without nulls."""
    return np.frombuffer(array.buffers()[1], np.int64, count=len(array), offset=8 * array.offset)


def repeated_text(text: str, count: int) -> Any:
    encoded = text.encode("utf-8")
    ends = np.arange(count + 1, dtype=np.int32) * len(encoded)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(encoded * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)
