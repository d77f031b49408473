"""The compiled loops never touch a byte outside of the arrays they are given: behind each lies a page that kills."""

from __future__ import annotations

import ctypes
import mmap
import random
from typing import Any, Final

import numpy as np
import pytest

from support.record_batches import MadeRecord
from tiergate_client.records.batch_table import TABLE_COLUMNS
from tiergate_client.records.engines import engine
from tiergate_client.records.kernel_loading import load_kernels
from tiergate_client.records.record_columns import DefectiveBatch, Wanted

_ROOM: Final = 1 << 18
_LENGTHS: Final = (None, 0, 1, 7, 8, 31, 32, 33, 62, 63, 64, 65, 127, 128, 511, 512, 513, 600)
_MUTATIONS: Final = (
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\x80" * 5,
    b"\xff" * 9 + b"\x01",
    b"\0",
    b"\x7f",
)


class GuardedMemory:
    """Arrays that end where memory ends, each of another mapping."""

    def __init__(self) -> None:
        self._mappings: dict[str, mmap.mmap] = {}

    def array(self, name: str, count: int, dtype: Any = np.uint8) -> Any:
        size = count * np.dtype(dtype).itemsize
        assert size <= _ROOM
        mapping = self._mappings.get(name) or self._mappings.setdefault(name, _mapping_before_a_forbidden_page())
        return np.frombuffer(mapping, np.uint8, size, _ROOM - size).view(dtype)

    def column(self, name: str, *, count: int, most_bytes: int) -> tuple[Any, Any, Any]:
        validity = self.array(f"{name} validity", (count + 7) // 8)
        validity[:] = 0xFF
        return self.array(f"{name} ends", count + 1, np.int32), validity, self.array(name, most_bytes)


def _mapping_before_a_forbidden_page() -> mmap.mmap:
    mapping = mmap.mmap(-1, _ROOM + mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(begin + _ROOM), mmap.PAGESIZE, 0) == 0
    return mapping


def _field(random_numbers: random.Random) -> bytes | None:
    length = random_numbers.choice(_LENGTHS)
    return None if length is None else random_numbers.randbytes(length)


def _bodies(random_numbers: random.Random) -> tuple[list[bytes], list[int]]:
    """Some of them damaged, and how many records each is said to have."""
    bodies: list[bytes] = []
    counts: list[int] = []
    for _ in range(random_numbers.randrange(1, 4)):
        count = random_numbers.randrange(1, 6)
        headers = ((b"name", b"x" * 20),) * random_numbers.choice([0, 0, 1, 3])
        body = bytearray(
            b"".join(
                MadeRecord(
                    delta * random_numbers.choice([1, 9000]),
                    random_numbers.choice([0, 1, -1, 8191, 8192, 2**40, -(2**63)]),
                    _field(random_numbers),
                    _field(random_numbers),
                    headers,
                ).encode()
                for delta in range(count)
            )
        )
        if random_numbers.random() < 0.4:
            at = random_numbers.randrange(len(body) if random_numbers.random() < 0.5 else 8)
            mutation = random_numbers.choice(_MUTATIONS)[: len(body) - at]
            body[at : at + len(mutation)] = mutation
        if random_numbers.random() < 0.1:
            del body[random_numbers.randrange(1, len(body)) :]
        bodies.append(bytes(body))
        counts.append(count)
    return bodies, counts


@pytest.mark.parametrize("room", [0, 32])
def test_records_are_read_within_the_arrays_and_as_the_other_engine_reads_them(room: int) -> None:
    random_numbers, memory, kernels = random.Random(room), GuardedMemory(), load_kernels()
    sound = 0
    for _ in range(1500):
        bodies, counts = _bodies(random_numbers)
        content, count = b"".join(bodies), sum(counts)
        data = memory.array("data", len(content))
        data[:] = np.frombuffer(content, np.uint8)
        ends = np.cumsum([len(body) for body in bodies])
        table = np.zeros((len(bodies), TABLE_COLUMNS), np.int64)
        table[:, 0], table[:, 1], table[:, 2] = ends - [len(body) for body in bodies], ends, counts
        table[:, 3:9] = 1000, 60_000, 5, 77, 0, -1

        offsets, timestamps = memory.array("offsets", count, np.int64), memory.array("timestamps", count, np.int64)
        keys = memory.column("keys", count=count, most_bytes=len(content) + room)
        values = memory.column("values", count=count, most_bytes=len(content) + room)
        headers = memory.array("headers", 2 * count, np.int64).reshape(2, count)
        totals = memory.array("totals", 4, np.int64)
        failed, defect, end = kernels.read_records(data, table, offsets, timestamps, *keys, *values, headers, totals)

        expected = engine("numpy").read_records(np.frombuffer(content, np.uint8), table, Wanted(True, True, True))
        if isinstance(expected, DefectiveBatch):
            assert (failed, defect) == (expected.number, expected.defect), content.hex()
            continue
        assert (failed, end) == (-1, expected.end), content.hex()
        assert np.array_equal(offsets, expected.offsets)
        assert np.array_equal(timestamps, expected.timestamps)
        for (_, _, copied), column in ((keys, expected.keys), (values, expected.values)):
            joined = b"".join(one for one in column.to_pylist() if one)
            assert copied[: len(joined)].tobytes() == joined
        sound += 1
    assert 300 < sound < 1400
