"""Scans the headers of the batches that hold a range's offsets; what is looked for is known outside."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tiergate_client.interfaces import RemoteStorage
from tiergate_client.records.batch_chunks import batch_chunks
from tiergate_client.records.batch_headers import ScannedBatches
from tiergate_client.records.defects import FoundDefect
from tiergate_client.records.read_split import SegmentRange


def scan_headers(
    wanted: SegmentRange, storage: RemoteStorage
) -> Iterator[tuple[ScannedBatches, npt.NDArray[np.bool_]]]:
    """Some batches at a time, and which of them hold offsets of the range: others share its bytes only.

    What is given is overwritten when the next one is asked for. Raises CorruptBatch behind the batches before that one.
    """
    defect = None
    try:
        for scanned in batch_chunks(wanted, storage):
            begins = scanned.fields["base_offset"]
            yield scanned, (scanned.last_offsets >= wanted.start_offset) & (begins < wanted.stop_offset)
            defect = scanned.defect
    except FoundDefect as found:
        defect = found.defect
    if defect is not None:
        raise defect.error(segment=str(wanted.segment.segment_id))
