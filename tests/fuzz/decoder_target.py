"""What the fuzzer runs: any bytes as a log, decoded by both engines and compared with the plain decoder.

    python tests/fuzz/decoder_target.py CORPUS -max_total_time=60

The first byte of an input chooses options, the rest is the log. Checksums are off for half of the inputs, since nothing
that is changed at random has a right one.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # before the first import of what is watched
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    sys.path.insert(0, str(Path(__file__).parents[1]))
    # Compiled loops can not be watched: the other engine's are, over the same inputs.
    watched = atheris.instrument_imports(
        include=["tiergate_client.records"], exclude=["tiergate_client.records._kernels"]
    )
    watched.__enter__()

from support.record_batches import MadeBatch, MadeRecord, marker
from support.slow_decoder import Row, slow_rows_until_defect
from tiergate_client.errors import CorruptBatch
from tiergate_client.records import ALL_COLUMNS, decode_batches
from tiergate_client.records.engines import EngineName

MAX_DECOMPRESSED_BYTES = 128 << 20
_ENGINES: tuple[EngineName, ...] = ("numpy", "numba")
_GROUP_BYTES = (1, 400, 1 << 20, 1 << 20)
_COLUMNS = (ALL_COLUMNS, ("offset", "value"), ("key", "headers"), ("timestamp", "timestamp_type"))


def check(content: bytes) -> None:
    """Raises AssertionError where an engine reads something else, and anything but CorruptBatch that it raises."""
    options, log = (content[0], content[1:]) if content else (0, b"")
    check_crc, group_bytes, columns = bool(options & 1), _GROUP_BYTES[options >> 1 & 3], _COLUMNS[options >> 3 & 3]
    expected_rows, expected_position = slow_rows_until_defect(log, check_crc=check_crc)
    expected = [{name: row[name] for name in columns} for row in expected_rows], expected_position
    for engine in _ENGINES:
        rows: list[Row] = []
        position = None
        try:
            for batch in decode_batches(
                log,
                columns=columns,
                check_crc=check_crc,
                group_bytes=group_bytes,
                max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
                engine_name=engine,
            ):
                batch.validate(full=True)
                rows += batch.to_pylist()
        except CorruptBatch as error:
            position = int(error.details["position"])
        assert (rows, position) == expected, f"{engine} differs"


def seeds() -> list[bytes]:
    """Logs as producers write them, one for each codec and one of all, with every choice of options."""
    records = tuple(
        MadeRecord(delta, delta - 3, key, value, ((b"name", b"x"), (b"", None))[: delta % 3])
        for delta, (key, value) in enumerate([(None, b"v" * 70), (b"", None), (b"key", b""), (b"k" * 130, b"value")])
    )
    logs = [
        MadeBatch(records, base_offset=10, attributes=codec | flags, producer_id=5).encode()
        for codec in range(5)
        for flags in (0, 0x08, 0x10, 0x40)
    ]
    end = marker(0, base_offset=14, producer_id=5).encode() + MadeBatch(base_offset=15, last_offset_delta=9).encode()
    logs += [log + end for log in logs[::4]] + [b"".join(logs[::4])]
    return [bytes([options]) + log for log in logs for options in (0, 2, 4, 8, 16, 24)]


def write_seeds(directory: Path) -> None:
    for number, seed in enumerate(seeds()):
        (directory / f"seed-{number:03d}").write_bytes(seed)


if __name__ == "__main__":
    corpus = Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    write_seeds(corpus)
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
