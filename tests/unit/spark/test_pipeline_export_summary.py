"""What is told at the end of an export."""

from __future__ import annotations

from tiergate_spark.pipelines.export_layout import OffsetRange
from tiergate_spark.pipelines.export_summary import ExportSummary

_LATE = (OffsetRange(0, 0, 10), OffsetRange(0, 10, 18), OffsetRange(2, 5, 6))


def test_gaps_that_were_filled_are_told_with_their_offsets() -> None:
    summary = ExportSummary("/lake/orders", 24, 4, 2048, {0: 70, 2: 6}, _LATE, 1.25)
    assert summary.text() == (
        "24 records of 2 partitions exported to /lake/orders (2.0 KiB read in 1.2 s); among them offsets that came "
        "into the tier after later ones were exported: 0 to 17 of partition 0, 5 to 5 of partition 2"
    )
    assert summary.document()["filled"][0] == {"partition": 0, "start_offset": 0, "stop_offset": 10}
    assert len(summary.document()["filled"]) == 3


def test_many_gaps_are_counted() -> None:
    late = tuple(OffsetRange(0, 10 * number, 10 * number + 1) for number in range(25))
    assert ExportSummary("p", 24, 25, 1, {0: 70}, late, 1).text().endswith("190 to 190 of partition 0, 5 more")


def test_without_gaps_nothing_is_told_of_them() -> None:
    assert ExportSummary("p", 24, 1, 1, {0: 70}, (), 1).text().endswith(" s)")
    assert ExportSummary("p", 0, 0, 0, {0: 70}, (), 1).text() == "nothing new since the last export to p"
