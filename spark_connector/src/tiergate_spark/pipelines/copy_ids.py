"""Segment ids for copies that several tasks, or several runs, may make of one segment at the same time.

An id names one attempt to copy, and here an attempt is what everybody makes together: the id follows from what is
copied, so that tasks that Spark repeats, speculative ones, and those of a driver that was killed all take the same one.
Whoever is last finds the work done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count

from tiergate_client.ids import SegmentId
from tiergate_client.local_log import LocalSegment
from tiergate_client.segment_files import FileChecksum

_ID_BYTES = 16


def copy_ids(segment: LocalSegment, log: FileChecksum) -> Iterator[SegmentId]:
    """The ids to try in turn: the next one only when a copy under the one before can never be finished.

    That is so when it was deleted: the id of a deleted segment is not given out again. Of the files the log alone
    counts: replicas have the same one, but indexes of their own.
    """
    return (_id(segment, log, generation) for generation in count())


def _id(segment: LocalSegment, log: FileChecksum, generation: int) -> SegmentId:
    content = (
        "tiergate offload, version 1",
        segment.partition.topic_id,
        segment.partition.partition,
        segment.base_offset,
        segment.end_offset,
        segment.leader_epochs.entries,
        segment.max_timestamp_ms,
        segment.txn_index_empty,
        log.size_bytes,
        log.crc32c,
        generation,
    )
    digest = hashlib.sha256("\n".join(map(str, content)).encode("utf-8")).digest()
    # As with random ones, the text begins with no dash, which a shell would take for a flag.
    while str(made := SegmentId(digest[:_ID_BYTES])).startswith("-"):
        digest = hashlib.sha256(digest).digest()
    return made
