"""The words of `tiergate-spark verify`; what it finds is shown on a real Spark."""

from __future__ import annotations

import pytest

from tiergate_spark.pipelines.verify import VerificationSummary
from tiergate_spark.pipelines.verify_command import summary_text


@pytest.mark.parametrize(
    ("damages", "warnings", "notes", "told"),
    [
        (0, 0, 0, "no findings"),
        (1, 0, 0, "1 finding of damage"),
        (3, 1, 2, "3 findings of damage, 1 warning, 2 notes"),
        (0, 2, 0, "2 warnings"),
    ],
)
def test_findings_are_counted_in_words_that_people_use(damages: int, warnings: int, notes: int, told: str) -> None:
    summary = VerificationSummary(
        partitions=1,
        segments=4,
        gone_segments=0,
        damaged_segments=0,
        batches=10,
        records=20,
        control_records=0,
        checked_bytes=2048,
        damages=damages,
        warnings=warnings,
        notes=notes,
    )
    assert summary_text([], summary).endswith(f"10 batches, 20 records, 2.0 KiB; {told}")
