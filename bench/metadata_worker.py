"""One measurement of the metadata core in a fresh process, told as one line of JSON.

replay EVENTS DATA_DIR    applies a file of events, then saves the state as a snapshot of the plane in DATA_DIR
restore DATA_DIR          brings that snapshot back
follow BOOTSTRAP          a replica reads the metadata topic until it is ready
consume BOOTSTRAP COUNT   a bare consumer with the same settings reads the bytes of so many records
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import uvloop
from confluent_kafka import Consumer, TopicPartition

from processes import resident_bytes
from scale_events import METADATA_PARTITIONS, read_events
from tiergate_server.adapters.embedded_log import EmbeddedEventLog
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.metadata.event_codec import decode_event
from tiergate_server.metadata.log_follower import LogFollower
from tiergate_server.metadata.snapshot import PartitionSnapshot
from tiergate_server.metadata.snapshot_codec import SnapshotHeader, encode
from tiergate_server.metadata.snapshot_store import SnapshotStore
from tiergate_server.metadata.state import MetadataState

Measured = Mapping[str, float]


def replay(events: str, data_directory: str) -> Measured:
    states = [MetadataState() for _ in range(METADATA_PARTITIONS)]
    first: dict[int, bytes] = {}
    before, seconds, count = resident_bytes(), 0.0, 0
    for batch in read_events(Path(events)):
        begin = time.perf_counter()
        for home, event in batch:
            states[home].apply(decode_event(event))
        seconds += time.perf_counter() - begin
        count += len(batch)
        for home, event in batch:
            first.setdefault(home, event)
    gc.collect()
    grown = resident_bytes() - before
    begin = time.perf_counter()
    size = _save(Path(data_directory), states, first)
    return {
        "events": count,
        "seconds": seconds,
        "resident_bytes": grown,
        "save_seconds": time.perf_counter() - begin,
        "snapshot_bytes": size,
    }


def _save(data_directory: Path, states: list[MetadataState], first: Mapping[int, bytes]) -> int:
    """The log itself gets one record per partition: what a plane must find there to trust its snapshot."""
    log = EmbeddedEventLog(data_directory / "metadata.db", partition_count=METADATA_PARTITIONS)
    offsets = {home: log.publish(home, event) for home, event in first.items()}
    captured = [
        PartitionSnapshot(home, applied=offset.result(), leader_epoch=-1, state=states[home])
        for home, offset in offsets.items()
    ]
    store = _snapshots(data_directory)
    key = store.save(log.log_id, encode(SnapshotHeader(log.log_id, METADATA_PARTITIONS, 1), captured))
    log.close()
    return (data_directory / "snapshots" / key).stat().st_size


def restore(data_directory: str) -> Measured:
    log = EmbeddedEventLog(Path(data_directory) / "metadata.db")
    store = _snapshots(Path(data_directory))
    before, begin = resident_bytes(), time.perf_counter()
    newest = store.newest(log.log_id, METADATA_PARTITIONS)
    assert newest is not None, "the snapshot was refused"
    states = [partition.restore() for partition in newest.partitions.values()]
    seconds = time.perf_counter() - begin
    del newest
    gc.collect()
    measured = {"seconds": seconds, "resident_bytes": resident_bytes() - before, "partitions": len(states)}
    log.close()
    return measured


def _snapshots(data_directory: Path) -> SnapshotStore:
    return SnapshotStore(FilesystemStore(data_directory / "snapshots"), prefix="")  # where a plane looks by default


def follow(bootstrap: str) -> Measured:
    return uvloop.run(_follow(bootstrap))


async def _follow(bootstrap: str) -> Measured:
    log = KafkaEventLog(_settings(bootstrap))
    follower = LogFollower(log)
    begin = time.perf_counter()
    await follower.start()
    await follower.wait_until_ready()
    seconds = time.perf_counter() - begin
    applied = sum(hosted.state.applied_events for hosted in follower.hosted.values())
    await follower.close()
    log.close()
    return {"events": applied, "seconds": seconds}


def consume(bootstrap: str, count: str) -> Measured:
    settings = _settings(bootstrap)
    consumer = Consumer(settings.consumer())
    missing, size, begin = int(count), 0, time.perf_counter()
    consumer.assign([TopicPartition(settings.topic, number, 0) for number in range(METADATA_PARTITIONS)])
    while missing:
        for message in consumer.consume(1000, timeout=0.1):
            if message.error() is None:
                size += len(message.value() or b"")
                missing -= 1
    seconds = time.perf_counter() - begin
    consumer.close()
    return {"events": int(count), "seconds": seconds, "bytes": size}


def _settings(bootstrap: str) -> KafkaLogSettings:
    return KafkaLogSettings(bootstrap=bootstrap, partitions=METADATA_PARTITIONS, replication=1)


if __name__ == "__main__":
    commands: Mapping[str, Callable[..., Measured]] = {
        "replay": replay,
        "restore": restore,
        "follow": follow,
        "consume": consume,
    }
    print(json.dumps(commands[sys.argv[1]](*sys.argv[2:])))
