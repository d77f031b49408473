"""Load, not a measurement: records read from a segment plane, in a process of its own, until SIGTERM.

It asks for the splits of a topic and reads them over and over, without parsing what comes, and says that it is ready
when records have come. At its end it writes how many bytes of messages came in a second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from typing import Any

import grpc

from tiergate.v1 import records_pb2 as pb
from tiergate.v1 import records_pb2_grpc
from tiergate_client import TopicId

METHOD = "/tiergate.v1.RecordService/ReadRecords"


def _load(address: str, *, topic_id: TopicId, ready_fd: int) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with grpc.insecure_channel(address) as channel:
        planned = records_pb2_grpc.RecordServiceStub(channel).PlanRead(
            pb.PlanReadRequest(partition=pb.RecordPartition(topic_id=topic_id.raw)), timeout=60
        )
        splits = [split for message in planned for split in message.splits]
        read: Any = channel.unary_stream(METHOD, request_serializer=pb.ReadRecordsRequest.SerializeToString)
        is_first = True
        received, begin = 0, time.monotonic()
        while not stop.is_set():
            for split in splits:
                call = read(pb.ReadRecordsRequest(split=split), timeout=600)
                for message in call:
                    received += len(message)
                    if is_first and received > len(splits[0].SerializeToString()) + 1024:
                        is_first = False
                        received, begin = 0, time.monotonic()
                        with os.fdopen(ready_fd, "w") as ready:
                            ready.write(json.dumps({"address": address}) + "\n")
                    if stop.is_set():
                        call.cancel()
                        break
        print(json.dumps({"bytes_per_second": received / (time.monotonic() - begin)}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--topic-id", type=TopicId.from_text, required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    arguments = parser.parse_args()
    _load(arguments.address, topic_id=arguments.topic_id, ready_fd=arguments.ready_fd)
