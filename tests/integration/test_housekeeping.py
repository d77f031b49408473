"""gc and rebuild as a person types them: real planes, a real broker, a real S3, and directories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.kafka_broker import KafkaBroker
from support.kafka_topics import KafkaTopics
from support.planes import Planes, running_planes
from support.planted_garbage import Plantation, stored_keys
from support.s3_server import Bucket
from support.segments import make_data, make_metadata, read_back
from support.waiting import wait_until
from support.watched_store import WatchedStore
from tiergate_client import RemoteLogSegmentMetadata, SegmentState, Tiergate, TopicId, TopicIdPartition, connect
from tiergate_client.clock import system_clock
from tiergate_client.ids import LogId
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.adapters.s3_store import S3Store
from tiergate_server.segments.garbage_collection import GarbageCollection
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.store_layout import MARKER_KEY
from tiergate_server.segments.store_marker import StoreMarkerV1, read_marker

DATA = make_data(log_bytes=5000, index_bytes=40)
NOW = ("--older-than", "0s", "--no-upload-runs")
LAST_OFFSET = 79
EPOCHS = (0, 1)


class Service:
    """Planes, the store that they keep segments in, and the command line with their configuration."""

    def __init__(self, directory: Path, settings: dict[str, str], open_store: Callable[[], ObjectStore]) -> None:
        self._directory = directory
        self._settings = settings
        self.open_store = open_store

    @contextmanager
    def running(self, **settings: str) -> Iterator[Planes]:
        with running_planes(self._directory, **self._settings, **settings) as planes:
            yield planes

    def command(self, planes: Planes, *words: str, exit_code: int = 0) -> tuple[Any, str]:
        set_all = [f"--set={key.replace('__', '.')}={value}" for key, value in self._settings.items()]
        return run_program(planes, *words, *set_all, f"--data-dir={self._directory}", exit_code=exit_code)


def run_program(planes: Planes, *words: str, exit_code: int = 0) -> tuple[Any, str]:
    """Its document, and what it said beside."""
    ended = subprocess.run(
        [sys.executable, "-m", "tiergate_server", "--target", planes.target, *words, "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == exit_code, ended.stderr
    return json.loads(ended.stdout) if ended.stdout else None, ended.stderr


@pytest.fixture(params=["directories", "s3"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Service:
    if request.param == "directories":
        return Service(tmp_path / "data", {}, lambda: FilesystemStore(tmp_path / "data" / "segments"))
    bucket: Bucket = request.getfixturevalue("bucket")
    settings = bucket.settings(multipart_threshold_bytes=BLOCK_BYTES)
    return Service(tmp_path / "data", bucket.plane_settings(), lambda: S3Store(settings))


def put_history(tiergate: Tiergate) -> list[RemoteLogSegmentMetadata]:
    """Two partitions; each range of offsets is copied, and some are copied once more by a later leader."""
    topic_id = TopicId.random()
    history: list[RemoteLogSegmentMetadata] = []
    for number in range(8):
        start = number * 10
        for epoch in EPOCHS[: 1 + number % 2]:
            segment = make_metadata(
                topic_id=topic_id,
                partition=number % 2,
                start_offset=start,
                end_offset=start + 9,
                epochs={epoch: start},
                event_timestamp_ms=1000 + len(history),
            )
            tiergate.metadata.add_segment(segment)
            custom = tiergate.storage.copy_segment(segment, DATA)
            finish = segment.step(
                SegmentState.COPY_FINISHED, event_timestamp_ms=segment.event_timestamp_ms, custom_metadata=custom
            )
            tiergate.metadata.update_segment(finish)
            history.append(segment.updated_by(finish))
    return history


def answers(tiergate: Tiergate, history: list[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata | None]:
    partitions: dict[TopicIdPartition, None] = dict.fromkeys(segment.partition for segment in history)
    return [
        tiergate.metadata.find_segment(partition, leader_epoch=epoch, offset=offset)
        for partition in partitions
        for epoch in EPOCHS
        for offset in range(LAST_OFFSET + 2)
    ]


def log_id_of(tiergate: Tiergate) -> LogId:
    log_id = tiergate.server_info("metadata").log_id
    assert log_id is not None
    return log_id


def wait_until_bound(store: ObjectStore, log_id: LogId) -> None:
    wait_until(lambda: read_marker(store) == StoreMarkerV1(log_id))


def test_gc_removes_exactly_the_garbage(service: Service) -> None:
    with service.running() as planes, connect(planes.target) as tiergate, closing(service.open_store()) as store:
        wait_until_bound(store, log_id_of(tiergate))
        store.delete(MARKER_KEY)  # planted with the rest
        planted = Plantation(store, tiergate.metadata)
        planted.one_of_each_kind(log_id_of(tiergate))
        # Stores tell times to the second.
        boundary_ms = (system_clock() // 1000 + 1) * 1000
        wait_until(lambda: system_clock() > boundary_ms + 1000)
        planted.running_upload()
        report = GarbageCollection(store, tiergate.metadata, before_ms=boundary_ms, deletes=True).run()
        assert {kind: tally.objects for kind, tally in report.garbage.items()} == planted.counts()
        planted.assert_only_the_garbage_is_gone()
        document, _ = service.command(planes, "gc", "--delete")
        assert all(tally["object_count"] == 0 for tally in document["stores"]["default"]["garbage"].values())
        planted.assert_only_the_garbage_is_gone()


def test_gc_command_removes_what_it_told_before(service: Service) -> None:
    with service.running() as planes, connect(planes.target) as tiergate, closing(service.open_store()) as store:
        wait_until_bound(store, log_id_of(tiergate))
        store.delete(MARKER_KEY)
        planted = Plantation(store, tiergate.metadata)
        planted.one_of_each_kind(log_id_of(tiergate))
        before = stored_keys(store)
        boundary_ms = system_clock()
        wait_until(lambda: system_clock() > boundary_ms + 1000)
        told, _ = service.command(planes, "gc", *NOW)
        assert stored_keys(store) == before
        removed, warnings = service.command(planes, "gc", *NOW, "--delete")
        assert removed == {**told, "dry_run": False}
        assert "notes.txt" in warnings
        planted.assert_only_the_garbage_is_gone()


def test_gc_that_is_stopped_again_and_again_loses_nothing_and_ends_with_all_garbage_gone(service: Service) -> None:
    class Stopped(Exception):
        pass

    def stop_at(last: int) -> Callable[[int], None]:
        def before(number: int) -> None:
            if number == last:
                raise Stopped

        return before

    with service.running() as planes, connect(planes.target) as tiergate, closing(service.open_store()) as store:
        wait_until_bound(store, log_id_of(tiergate))
        store.delete(MARKER_KEY)
        planted = Plantation(store, tiergate.metadata)
        planted.one_of_each_kind(log_id_of(tiergate))
        last, is_stopped = 0, True
        while is_stopped:
            watched = WatchedStore(store, stop_at(last))
            is_stopped = False
            try:
                GarbageCollection(watched, tiergate.metadata, before_ms=2**50, deletes=True).run()
            except Stopped:
                is_stopped = True
            assert planted.kept <= stored_keys(store), f"stopped before operation {last}"
            last += 1
        assert last > 5
        planted.assert_only_the_garbage_is_gone()


def test_gc_refuses_a_replica_that_hosts_a_part_and_a_store_of_nobody(service: Service) -> None:
    with service.running() as planes, connect(planes.target) as tiergate, closing(service.open_store()) as store:
        wait_until_bound(store, log_id_of(tiergate))
        tiergate.storage.copy_segment(make_metadata(), DATA)
        before = stored_keys(store)
        _, refusal = service.command(planes, "gc", *NOW, "--delete", exit_code=5)
        assert "is empty and store default holds segments" in refusal
        tiergate.admin.set_assignment(metadata_partitions=[1, 2])
        _, refusal = service.command(planes, "gc", *NOW, "--delete", exit_code=5)
        assert "hosts 2 of 50 metadata partitions" in refusal
        tiergate.admin.set_assignment()
        store.delete(MARKER_KEY)
        _, refusal = service.command(planes, "gc", *NOW, "--delete", exit_code=5)
        assert "has no marker" in refusal
        assert stored_keys(store) == before - {MARKER_KEY}


def test_rebuild_of_a_lost_log_answers_every_lookup_as_before(service: Service, tmp_path: Path) -> None:
    with service.running() as planes, connect(planes.target) as tiergate, closing(service.open_store()) as store:
        lost_id = log_id_of(tiergate)
        wait_until_bound(store, lost_id)
        history = put_history(tiergate)
        before = answers(tiergate, history)
        assert sum(answer is not None for answer in before) > LAST_OFFSET
        planes.metadata.stop()
        for file in (tmp_path / "data").glob("metadata.db*"):
            file.unlink()
        planes.metadata.start()
        with connect(planes.target) as again:
            assert log_id_of(again) != lost_id
            wait_until(lambda: bool(again.server_info("metadata").warnings))
            (warning,) = again.server_info("metadata").warnings
            assert warning.startswith(f"store default belongs to the metadata log {lost_id}")
            status, _ = run_program(planes, "status")
            assert status["planes"]["metadata"]["warnings"] == [warning]
            _, refusal = service.command(planes, "gc", *NOW, "--delete", exit_code=5)
            assert f"belongs to the metadata log {lost_id}" in refusal
            service.command(planes, "rebuild", exit_code=5)
            document, _ = service.command(planes, "rebuild", "--take-over")
            assert (document["added_count"], document["skipped"]) == (len(history), [])
            assert answers(again, history) == before
            for segment in history:
                assert read_back(again.storage, segment) == DATA
            assert read_marker(store) == StoreMarkerV1(log_id_of(again))
            document, _ = service.command(planes, "gc", *NOW, "--delete")
            assert all(tally["object_count"] == 0 for tally in document["stores"]["default"]["garbage"].values())


def test_bucket_is_attached_to_a_new_topic_of_kafka(kafka: KafkaBroker, bucket: Bucket, tmp_path: Path) -> None:
    service = Service(tmp_path / "data", bucket.plane_settings(), lambda: S3Store(bucket.settings()))

    def on_new_topic() -> dict[str, str]:
        return {
            "metadata__log": f"kafka://{kafka.bootstrap}",
            "metadata__kafka__topic": KafkaTopics.unused_name(),
            "metadata__kafka__replication": "1",
            "metadata__kafka__partitions": "3",
            "metadata__snapshot__directory": "",
        }

    with closing(service.open_store()) as store:
        with service.running(**on_new_topic()) as planes, connect(planes.target) as tiergate:
            wait_until_bound(store, log_id_of(tiergate))
            history = put_history(tiergate)
            before = answers(tiergate, history)
        with service.running(**on_new_topic()) as planes, connect(planes.target) as tiergate:
            document, _ = service.command(planes, "rebuild", "--take-over")
            assert document["added_count"] == len(history)
            assert answers(tiergate, history) == before
            assert list(tiergate.metadata.list_segments(history[0].partition)) == sorted(
                (segment for segment in history if segment.partition == history[0].partition),
                key=lambda segment: (segment.start_offset, segment.segment_id),
            )
            assert read_marker(store) == StoreMarkerV1(log_id_of(tiergate))
            _, refusal = service.command(planes, "rebuild", exit_code=5)
            assert "is not empty" in refusal
