"""Verifies segments, several at a time, and says of each how it is. What a person sees of it is not decided here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tiergate_client.errors import Cancelled, SegmentNotFound, StoredDataCorrupt, TiergateError, Unavailable
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_client.verification import VerificationProgress
from tiergate_server.cli.connection import Tiergate

# A signal does not end a wait that was just about to begin: Ctrl-C is noticed at the next look.
_LONGEST_WAIT_S: Final = 0.2

Observer = Callable[[RemoteLogSegmentMetadata, VerificationProgress], None]
"""Told how far each segment is, from several threads."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a file of a segment, or with its manifest."""

    file: str
    position: int
    fact: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a segment is: whole, damaged, deleted meanwhile, or not known because of a failure."""

    metadata: RemoteLogSegmentMetadata
    verified_bytes: int = 0
    findings: tuple[Finding, ...] = ()
    is_gone: bool = False
    failure: TiergateError | None = None


def verdicts(
    tiergate: Tiergate, segments: Iterable[RemoteLogSegmentMetadata], *, parallel: int, observe: Observer
) -> Generator[Verdict, None, None]:
    """One for each segment, in the order in which they are done. Never holds all segments.

    Whoever closes it need not wait: what still runs ends with the connection.
    """
    stopped = threading.Event()

    def verify(metadata: RemoteLogSegmentMetadata) -> Verdict:
        return _verdict(tiergate, metadata, observe, stopped)

    waiting = iter(segments)
    running: set[Future[Verdict]] = set()
    threads = ThreadPoolExecutor(parallel, thread_name_prefix="verify")
    try:
        while True:
            running |= {threads.submit(verify, metadata) for metadata in islice(waiting, parallel - len(running))}
            if not running:
                return
            done, running = wait(running, timeout=_LONGEST_WAIT_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        stopped.set()
        threads.shutdown(wait=False, cancel_futures=True)


def _verdict(
    tiergate: Tiergate, metadata: RemoteLogSegmentMetadata, observe: Observer, stopped: threading.Event
) -> Verdict:
    findings: list[Finding] = []
    verified_bytes = 0
    try:
        for progress in tiergate.storage.verify_segment(metadata):
            if stopped.is_set():
                raise Cancelled("the verification was given up")
            verified_bytes = progress.verified_bytes
            findings += (Finding(found.file.value, found.position, found.fact) for found in progress.damages)
            observe(metadata, progress)
    except SegmentNotFound:
        if not _is_finished(tiergate, metadata):
            return Verdict(metadata, is_gone=True)
        findings.append(Finding("manifest", 0, "is missing"))
    except StoredDataCorrupt:
        findings.append(Finding("manifest", 0, "does not match its checksum"))
    except TiergateError as failure:
        if isinstance(failure, Unavailable) and not failure.reason:  # nobody answers: neither will they for the others
            raise
        return Verdict(metadata, verified_bytes, tuple(findings), failure=failure)
    return Verdict(metadata, verified_bytes, tuple(findings))


def _is_finished(tiergate: Tiergate, metadata: RemoteLogSegmentMetadata) -> bool:
    """Whether the segment should still be there, or was deleted since it was listed."""
    try:
        now = tiergate.metadata.get_segment(metadata.segment_id, partition=metadata.partition)
    except SegmentNotFound:
        return False
    return now.state is SegmentState.COPY_FINISHED
