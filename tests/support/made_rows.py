"""Rows for producers to write: every kind of key, value and header; who writes them where is not decided here."""

from __future__ import annotations

import random
from itertools import count
from typing import Final

from support.kafka_records import Row

BASE_TIME_MS: Final = 1_700_000_000_000

_SIZES = (0, 1, 63, 64, 65, 200, 3000)
_numbers = count()


def made_rows(amount: int, *, keys: int = 50) -> list[Row]:
    """Null, empty, small and large, with and without headers; their times are not in order. No two calls alike."""
    random_numbers = random.Random(amount + next(_numbers))

    def content() -> bytes:
        return random_numbers.randbytes(4) * (random_numbers.choice(_SIZES) // 4 + 1)

    return [
        {
            "key": random_numbers.choice([None, b"", b"key-%d" % random_numbers.randrange(keys)]),
            "value": random_numbers.choice([None, b"", content(), content(), content()]),
            "timestamp": BASE_TIME_MS + random_numbers.randrange(-(10**6), 10**6),
            "headers": [
                {"key": f"name-\xe9{number}", "value": random_numbers.choice([None, b"", content()])}
                for number in range(random_numbers.choice([0, 0, 1, 3]))
            ],
        }
        for _ in range(amount)
    ]


def plain_row(value: bytes, *, key: bytes | None = None, timestamp_ms: int = BASE_TIME_MS, partition: int = 0) -> Row:
    return {"key": key, "value": value, "timestamp": timestamp_ms, "headers": [], "partition": partition}
