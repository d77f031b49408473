"""The metadata plane on a real Kafka topic: before the broker is there, with records that cannot be read, following."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import grpc
import pytest
from contract.remote_log_metadata_contract import new_partition, new_segment

from support.health import is_serving
from support.kafka_broker import KafkaBroker, running_broker
from support.kafka_topics import KafkaTopics
from support.planes import PlaneProcess
from support.waiting import wait_until
from support.wire import channel_to
from tiergate_client import SegmentId, SegmentState, connect
from tiergate_client.errors import MetadataCorrupt, MetadataNotReady, ReadOnly, SegmentNotFound, TiergateError
from tiergate_server.metadata.event_codec import encode_event
from tiergate_server.metadata.partitioner import metadata_partition

PARTITIONS = 3


def plane_on(broker: KafkaBroker, directory: Path, topic: str, **extra: str) -> PlaneProcess:
    settings = {
        "metadata.listen": "127.0.0.1:0",
        "metadata.metrics": "",
        "metadata.log": f"kafka://{broker.bootstrap}",
        "metadata.kafka.topic": topic,
        "metadata.kafka.replication": "1",
        "metadata.kafka.partitions": str(PARTITIONS),
    }
    settings |= {key.replace("__", "."): value for key, value in extra.items()}
    return PlaneProcess("metadata", data_directory=directory, settings=settings)


def test_plane_serves_before_the_broker_is_there_and_becomes_ready_under_load(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as broker:
        broker.stop()
        plane = plane_on(broker, tmp_path / "plane", "late", metadata__listen="127.0.0.1:0")
        address = plane.start_unready()
        try:
            assert not is_serving(address)
            answers: Counter[str] = Counter()
            stop = threading.Event()

            def ask() -> None:
                with connect(address, timeout_s=5) as tiergate:
                    while not stop.is_set():
                        try:
                            tiergate.metadata.get_segment(SegmentId.random())
                        except TiergateError as error:
                            answers[type(error).__name__] += 1

            askers = [threading.Thread(target=ask) for _ in range(3)]
            for asker in askers:
                asker.start()
            wait_until(lambda: answers["MetadataNotReady"] >= 3)
            assert set(answers) == {"MetadataNotReady"}
            broker.start()
            wait_until(lambda: answers["SegmentNotFound"] >= 50, timeout_s=60)
            stop.set()
            for asker in askers:
                asker.join()
            assert set(answers) == {"MetadataNotReady", "SegmentNotFound"}
            assert is_serving(address)
        finally:
            plane.kill()


def test_unreadable_record_stops_its_metadata_partition_alone_until_it_is_skipped(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    topic = "unreadable"
    broken = new_segment(new_partition(), 0, 9)
    home = metadata_partition(broken.partition, partition_count=PARTITIONS)
    fine = next(
        segment
        for segment in (new_segment(new_partition(), 0, 9) for _ in range(1000))
        if metadata_partition(segment.partition, partition_count=PARTITIONS) != home
    )
    plane = plane_on(kafka, tmp_path, topic)
    plane.start()
    try:
        with connect(plane.address, timeout_s=10) as tiergate:
            tiergate.metadata.add_segment(broken)
            tiergate.metadata.add_segment(fine)
            finish = broken.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1)
            # Null, empty and unknown ones are passed over; one that cannot be read is not.
            for value in (None, b"", b"\x01\x63\x00", b"\x01\x00\x00\xff", encode_event(finish)):
                KafkaTopics(kafka).write(topic, home, value)

            def is_corrupt() -> bool:
                try:
                    tiergate.metadata.get_segment(broken.segment_id, partition=broken.partition)
                except MetadataCorrupt as refusal:
                    return refusal.details == {"partition": str(home), "offset": "4"}
                return False

            wait_until(is_corrupt)
            assert tiergate.metadata.get_segment(fine.segment_id, partition=fine.partition) == fine
            assert [summary.partition for summary in tiergate.metadata.list_partitions()]
        plane.stop()
        plane = plane_on(kafka, tmp_path, topic, metadata__skip=f"{home}:4")
        plane.start()
        with connect(plane.address, timeout_s=10) as tiergate:
            found = tiergate.metadata.get_segment(broken.segment_id, partition=broken.partition)
            assert found.state is SegmentState.COPY_FINISHED
    finally:
        plane.kill()


def test_follower_reads_what_others_write_and_never_writes(tmp_path: Path, kafka: KafkaBroker) -> None:
    owner, follower = (
        plane_on(kafka, tmp_path / "owner", "followed"),
        plane_on(kafka, tmp_path / "follower", "followed", metadata__mode="follow"),
    )
    owner.start()
    try:
        follower.start()
        segment = new_segment(new_partition(), 0, 9)
        with connect(owner.address) as writer, connect(follower.address) as reader:
            writer.metadata.add_segment(segment)

            def is_there() -> bool:
                try:
                    return reader.metadata.get_segment(segment.segment_id) == segment
                except SegmentNotFound:
                    return False

            wait_until(is_there)
            with pytest.raises(ReadOnly):
                reader.metadata.add_segment(new_segment(new_partition(), 0, 9))
            with pytest.raises(ReadOnly):
                reader.metadata.update_segment(segment.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1))
            assert "follow" in reader.server_info().features
    finally:
        for plane in (owner, follower):
            if plane.is_running():
                plane.kill()


def test_follower_of_a_topic_that_is_not_there_is_not_ready_and_creates_nothing(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    plane = plane_on(kafka, tmp_path, "nobody-made-this", metadata__mode="follow")
    address = plane.start_unready()
    try:
        with connect(address, timeout_s=3) as tiergate:
            with pytest.raises((MetadataNotReady, TiergateError)) as refusal:
                tiergate.metadata.get_segment(SegmentId.random())
            assert "nobody-made-this" in refusal.value.message
    finally:
        plane.kill()
    with channel_to(address) as channel, pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(0.2)
