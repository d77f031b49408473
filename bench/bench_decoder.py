"""Records of an uncompressed log as Arrow columns, on one core, beside what no decoder can go below.

The peer is a checksum and a copy of every batch, to a place that is written again and again: the bytes are read twice
and written once, with nothing found out about them. Both take turns over the same bytes in memory. CPU time is counted,
since the machine may do other work.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from crc32c import crc32c

from report import Figure, compared, show
from tiergate_client.records import DEFAULT_COLUMNS, decode_batches, scan_batches
from tiergate_client.records.engines import EngineName
from tiergate_server.kafka_files.record_batches import Record, encode_batch

BATCH_RECORDS = 150  # about the 16 kB that a Java producer fills by default


@dataclass(slots=True)
class Timed:
    """One of those that are compared, and what each round took."""

    run: Callable[[], int]
    cpu_s: list[float] = field(default_factory=list)

    def round(self, *, is_counted: bool) -> int:
        begin = time.process_time()
        result = self.run()
        if is_counted:
            self.cpu_s.append(time.process_time() - begin)
        return result

    def rates(self, amount: float) -> list[float]:
        return [amount / seconds for seconds in self.cpu_s]


def make_log(*, records: int, value_bytes: int) -> bytes:
    random_numbers = random.Random(6)
    values = [random_numbers.randbytes(value_bytes) for _ in range(1000)]
    return b"".join(
        encode_batch(
            [
                Record(1_700_000_000_000 + offset, b"key-%05d" % (offset % 99_999), values[offset % 1000])
                for offset in range(base, base + BATCH_RECORDS)
            ],
            base_offset=base,
            leader_epoch=0,
        ).content
        for base in range(0, records, BATCH_RECORDS)
    )


def decoder(log: bytes, columns: Sequence[str], engine: EngineName | None = None) -> Timed:
    return Timed(
        lambda: sum(batch.num_rows for batch in decode_batches(log, columns=columns, engine_name=engine)),
    )


def checksum_and_copy(log: bytes) -> Timed:
    view = memoryview(log)
    spans = [(header.position, header.position + header.size_bytes) for header in scan_batches(log)]
    target = memoryview(bytearray(2 << 20))

    def run() -> int:
        at = 0
        for start, end in spans:
            crc32c(view[start:end])
            at = at + end - start if at + 2 * (end - start) <= len(target) else 0
            target[at : at + end - start] = view[start:end]
        return len(spans)

    return Timed(run)


def bench(log: bytes, *, rounds: int) -> list[Figure]:
    sides = {
        "all columns but headers": decoder(log, DEFAULT_COLUMNS),
        "offset and value": decoder(log, ("offset", "value")),
        "without numba": decoder(log, DEFAULT_COLUMNS, "numpy"),
    }
    limit = checksum_and_copy(log)
    records = 0
    for number in range(rounds + 1):  # the first round warms up
        for side in sides.values():
            records = side.round(is_counted=number > 0)
        limit.round(is_counted=number > 0)
    gigabytes, millions = len(log) / 1e9, records / 1e6
    return [
        figure
        for subject, side in sides.items()
        for figure in (
            compared(subject, "GB/s per core", "higher", tiergate=side.rates(gigabytes), peer=limit.rates(gigabytes)),
            compared(subject, "M records/s", "higher", tiergate=side.rates(millions), peer=limit.rates(millions)),
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=84)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    log = make_log(records=arguments.records, value_bytes=arguments.value_bytes)
    title = (
        f"decoder: {arguments.records:,} records, {len(log) / 1e6:.0f} MB, beside checksum and copy, "
        f"{arguments.rounds} rounds"
    )
    show(title, bench(log, rounds=arguments.rounds), as_json=arguments.json)


if __name__ == "__main__":
    main()
