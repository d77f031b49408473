"""Load, not a measurement: downloads of one segment from a segment plane, in a process of its own, until SIGTERM.

It copies the segment there first and says that it is ready when every download has got its first bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
from pathlib import Path

from bench_bytes import MIB, new_metadata, write_random
from tiergate_client import LogSegmentData, RemoteLogSegmentMetadata, Tiergate, connect


def _download(
    tiergate: Tiergate, metadata: RemoteLogSegmentMetadata, *, begun: threading.Barrier, stop: threading.Event
) -> None:
    is_first = True
    while not stop.is_set():
        with tiergate.storage.fetch_segment(metadata) as stream:
            for _piece in stream:
                if is_first:
                    begun.wait()
                    is_first = False
                if stop.is_set():
                    break


def _load(address: str, *, downloads: int, size_bytes: int, ready_fd: int) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    metadata = new_metadata(size_bytes)
    begun = threading.Barrier(downloads + 1)
    with connect(address, segments=address, access="service") as tiergate:
        with tempfile.TemporaryDirectory(prefix="tiergate-bench-") as directory:
            log = Path(directory) / "log"
            write_random(log, size_bytes)
            data = LogSegmentData(log=log, offset_index=b"", time_index=b"", leader_epoch=b"0\n1\n0 0\n")
            tiergate.storage.copy_segment(metadata, data)
        threads = [
            threading.Thread(target=_download, args=(tiergate, metadata), kwargs={"begun": begun, "stop": stop})
            for _ in range(downloads)
        ]
        for thread in threads:
            thread.start()
        begun.wait()
        with os.fdopen(ready_fd, "w") as ready:
            ready.write(json.dumps({"address": address}) + "\n")
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--downloads", type=int, default=4)
    parser.add_argument("--size-mib", type=int, default=256)
    parser.add_argument("--ready-fd", type=int, required=True)
    arguments = parser.parse_args()
    _load(
        arguments.address,
        downloads=arguments.downloads,
        size_bytes=arguments.size_mib * MIB,
        ready_fd=arguments.ready_fd,
    )
