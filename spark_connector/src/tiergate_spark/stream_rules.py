"""What a stream may not ask for, as Spark's Kafka source has it; batch reads have rules of their own."""

from __future__ import annotations

from tiergate_client.errors import InvalidField
from tiergate_spark.options import SourceOptions


def check_stream_options(options: SourceOptions) -> None:
    """Raises InvalidField."""
    if options.ending is not None:
        raise InvalidField.of(
            "endingOffsets",
            "a stream has no end; leave out endingOffsets, endingTimestamp and endingOffsetsByTimestamp, or let the "
            "stream end at what there is with trigger(availableNow=True)",
        )
