"""One segment of an offload, on the real domain in this process: however often and wherever it is tried, one copy."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from support.in_process_tiergate import InProcessTiergate, in_process_tiergate
from tiergate_client.clock import system_clock
from tiergate_client.errors import StorageUnavailable, Unavailable
from tiergate_client.local_log import PartitionDirectory
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_lifecycle import copy_segment, delete_segment
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.options import Service
from tiergate_spark.pipelines import outage_patience, segment_offload
from tiergate_spark.pipelines.offload import OffloadOptions, open_directories
from tiergate_spark.pipelines.segment_offload import SegmentTask, offload_segment

_INDEX_ENTRY_BYTES = 8
_SERVICE = Service("metadata.test:7400", None, "auto")


@pytest.fixture
def tiergate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessTiergate]:
    with in_process_tiergate(tmp_path / "objects") as running:
        monkeypatch.setattr(segment_offload, "worker_client", lambda _: running)
        yield running


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts fail at once, as they do after half a minute."""
    monkeypatch.setattr(outage_patience, "PATIENCE_S", 0)


@pytest.fixture
def directory(tmp_path: Path) -> PartitionDirectory:
    return PartitionDirectory.open(write_sample(tmp_path, segments=2, segment_bytes=32 * 1024).directory)


def first_task(directory: PartitionDirectory, *known: RemoteLogSegmentMetadata) -> SegmentTask:
    cut = replace(directory, base_offsets=directory.base_offsets[:2])
    return SegmentTask(_SERVICE, cut, known, broker_id=7)


def states(tiergate: InProcessTiergate, directory: PartitionDirectory) -> Counter[str]:
    return Counter(one.state.name for one in tiergate.metadata.list_segments(directory.partition))


def test_segment_is_announced_copied_and_finished(tiergate: InProcessTiergate, directory: PartitionDirectory) -> None:
    outcome = offload_segment(first_task(directory))
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    (segment, *_) = directory.rolled_segments()
    assert (outcome.result, outcome.segment_id) == ("copied", str(stored.segment_id))
    assert stored.state is SegmentState.COPY_FINISHED
    assert stored.broker_id == 7
    assert segment.is_described_by(stored)
    assert tiergate.storage.get_manifest(stored).log == segment.data.manifest(stored).log


def test_segment_that_is_there_is_skipped(tiergate: InProcessTiergate, directory: PartitionDirectory) -> None:
    offload_segment(first_task(directory))
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    again = offload_segment(first_task(directory, stored))
    assert (again.result, again.segment_id) == ("skipped", str(stored.segment_id))
    assert len(tiergate.watched_storage.copies) == 1


def test_attempt_that_knows_nothing_of_a_finished_one_gives_the_same_copy(
    tiergate: InProcessTiergate, directory: PartitionDirectory
) -> None:
    first, second = offload_segment(first_task(directory)), offload_segment(first_task(directory))
    assert second.segment_id == first.segment_id
    assert states(tiergate, directory) == {"COPY_FINISHED": 1}


@pytest.fixture
def replica(directory: PartitionDirectory, tmp_path: Path) -> PartitionDirectory:
    """Of another broker: the same logs, of which its index knows an entry less."""
    path = copytree(directory.path, tmp_path / "broker-2" / directory.path.name)
    index = path / f"{0:020}.index"
    index.write_bytes(index.read_bytes()[:-_INDEX_ENTRY_BYTES])
    return PartitionDirectory.open(path)


def test_copy_that_a_replica_finished_meanwhile_is_given_and_not_deleted(
    tiergate: InProcessTiergate,
    directory: PartitionDirectory,
    replica: PartitionDirectory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy, firsts = tiergate.storage.copy_segment, []

    def copy_late(metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
        monkeypatch.setattr(tiergate.storage, "copy_segment", copy)
        firsts.append(offload_segment(first_task(directory)))
        return copy(metadata, data)

    monkeypatch.setattr(tiergate.storage, "copy_segment", copy_late)
    outcome = offload_segment(first_task(replica))
    (first,) = firsts
    assert (outcome.result, outcome.segment_id) == ("copied", first.segment_id)
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    assert stored.state is SegmentState.COPY_FINISHED
    (segment, *_) = directory.rolled_segments()
    assert tiergate.storage.get_manifest(stored).files == segment.data.manifest(stored).files


@pytest.mark.usefixtures("impatience")
def test_copy_that_a_replica_stored_is_finished_for_it(
    tiergate: InProcessTiergate, directory: PartitionDirectory, replica: PartitionDirectory
) -> None:
    tiergate.watched_metadata.refuse_updates_with = StorageUnavailable("not now")
    with pytest.raises(StorageUnavailable):
        offload_segment(first_task(directory))
    tiergate.watched_metadata.refuse_updates_with = None
    (begun,) = tiergate.metadata.list_segments(directory.partition)
    others, own = offload_segment(first_task(replica, begun)), offload_segment(first_task(directory))
    assert others.segment_id == own.segment_id == str(begun.segment_id)
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    assert stored.state is SegmentState.COPY_FINISHED
    with tiergate.storage.fetch_segment(stored) as stream:
        assert stream.read() == (directory.path / f"{0:020}.log").read_bytes()


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("broken", ["copy", "update"])
def test_attempt_that_failed_is_continued_by_the_next(
    tiergate: InProcessTiergate, directory: PartitionDirectory, broken: str
) -> None:
    failure = StorageUnavailable("not now")
    if broken == "copy":
        tiergate.watched_storage.break_copies_with = failure
    else:
        tiergate.watched_metadata.refuse_updates_with = failure
    with pytest.raises(StorageUnavailable):
        offload_segment(first_task(directory))
    assert states(tiergate, directory) == {"COPY_STARTED": 1}
    (begun,) = tiergate.metadata.list_segments(directory.partition)
    tiergate.watched_storage.break_copies_with = tiergate.watched_metadata.refuse_updates_with = None

    repeated = offload_segment(first_task(directory))
    planned_again = offload_segment(first_task(directory, begun))
    assert {repeated.segment_id, planned_again.segment_id} == {str(begun.segment_id)}
    assert states(tiergate, directory) == {"COPY_FINISHED": 1}


class Outage:
    """The first call of a method fails, before it has done anything or when it has, and its answer is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, *, is_done: bool) -> None:
        self._real = getattr(owner, method)
        self._is_done = is_done
        self.calls = 0
        monkeypatch.setattr(owner, method, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls > 1:
            return self._real(*arguments, **options)
        if self._is_done:
            self._real(*arguments, **options)
        raise Unavailable("the plane at segments.test:7401 does not answer")


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("step", ["metadata.add_segment", "storage.copy_segment", "metadata.update_segment"])
def test_outage_at_any_step_costs_a_retry_and_the_same_copy_goes_on(
    tiergate: InProcessTiergate,
    directory: PartitionDirectory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
    is_begun: bool,
    is_done: bool,
) -> None:
    """Spark has one attempt for a task when it runs on threads."""
    (segment, *_) = directory.rolled_segments()
    begun = segment.new_metadata(broker_id=1, event_timestamp_ms=1)
    if is_begun:
        tiergate.metadata.add_segment(begun)
        tiergate.storage.copy_segment(begun, segment.data)
    plane, method = step.split(".")
    Outage(monkeypatch, getattr(tiergate, plane), method, is_done=is_done)
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        outcome = offload_segment(first_task(directory, *[begun] * is_begun))
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    assert (stored.state, str(stored.segment_id)) == (SegmentState.COPY_FINISHED, outcome.segment_id)
    assert outcome.result == ("continued" if is_begun else "copied")
    is_announced_before = is_begun and method == "add_segment"
    assert len(caplog.messages) == (not is_announced_before)
    for message in caplog.messages:
        assert message.startswith(f"orders-0 0 - {segment.end_offset}: the plane at segments.test:7401 does not answer")


def test_segment_that_is_there_is_skipped_when_the_segment_plane_is_back(
    tiergate: InProcessTiergate, directory: PartitionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    offload_segment(first_task(directory))
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    outage = Outage(monkeypatch, tiergate.storage, "get_manifest", is_done=False)
    assert offload_segment(first_task(directory, stored)).result == "skipped"
    assert outage.calls == 2


def test_copy_that_a_put_began_is_continued(tiergate: InProcessTiergate, directory: PartitionDirectory) -> None:
    (segment, *_) = directory.rolled_segments()
    begun = segment.new_metadata(broker_id=1, event_timestamp_ms=1)
    tiergate.metadata.add_segment(begun)
    tiergate.storage.copy_segment(begun, segment.data)
    outcome = offload_segment(first_task(directory, begun))
    assert (outcome.result, outcome.segment_id) == ("continued", str(begun.segment_id))
    assert states(tiergate, directory) == {"COPY_FINISHED": 1}


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("was_finished", [True, False])
def test_segment_whose_copy_was_deleted_is_copied_again(
    tiergate: InProcessTiergate, directory: PartitionDirectory, was_finished: bool
) -> None:
    """A copy that was deleted in its middle leaves a tombstone, under which its id can not be stored any more."""
    if was_finished:
        offload_segment(first_task(directory))
    else:
        tiergate.watched_metadata.refuse_updates_with = StorageUnavailable("not now")
        with pytest.raises(StorageUnavailable):
            offload_segment(first_task(directory))
        tiergate.watched_metadata.refuse_updates_with = None
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    delete_segment(tiergate, stored, clock=system_clock)
    assert offload_segment(first_task(directory)).result == "copied"
    assert states(tiergate, directory) == {"COPY_FINISHED": 1}


def test_copy_that_is_being_deleted_is_left_alone(tiergate: InProcessTiergate, directory: PartitionDirectory) -> None:
    first = offload_segment(first_task(directory))
    (stored,) = tiergate.metadata.list_segments(directory.partition)
    tiergate.metadata.update_segment(stored.step(SegmentState.DELETE_STARTED, event_timestamp_ms=2))
    second = offload_segment(first_task(directory))
    assert second.segment_id != first.segment_id
    assert states(tiergate, directory) == {"COPY_FINISHED": 1, "DELETE_STARTED": 1}


def test_other_content_of_the_same_offsets_gets_another_id_and_a_warning(
    tiergate: InProcessTiergate, directory: PartitionDirectory
) -> None:
    (segment, *_) = directory.rolled_segments()
    damaged = segment.log.read_bytes()[:-1] + bytes([segment.log.read_bytes()[-1] ^ 1])
    segment = replace(segment, data=replace(segment.data, log=damaged))
    other = copy_segment(
        tiergate, segment, begun=None, broker_id=1, clock=system_clock, observe=lambda _: None, warn=lambda _: None
    )
    outcome = offload_segment(first_task(directory, other))
    assert outcome.result == "copied"
    assert outcome.warning is not None
    assert str(other.segment_id) in outcome.warning


def test_unreadable_segment_is_an_outcome_that_says_why(
    tiergate: InProcessTiergate, directory: PartitionDirectory
) -> None:
    (directory.path / f"{0:020}.index").unlink()
    outcome = offload_segment(first_task(directory))
    assert outcome.result == "failed"
    assert outcome.failure is not None
    assert "00000000000000000000.index is missing" in outcome.failure
    assert states(tiergate, directory) == {}


def test_directory_that_an_executor_does_not_see_is_named(
    tiergate: InProcessTiergate, directory: PartitionDirectory
) -> None:
    task = first_task(replace(directory, path=Path("/nowhere/orders-0")))
    outcome = offload_segment(task)
    assert outcome.failure is not None
    assert "/nowhere/orders-0" in outcome.failure


def test_directory_of_two_names_is_offloaded_once(
    directory: PartitionDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "links" / directory.path.name
    link.parent.mkdir()
    link.symlink_to(directory.path)
    monkeypatch.chdir(tmp_path)
    names = [directory.path, link, directory.path.relative_to(tmp_path)]
    assert [one.path for one in open_directories(names, OffloadOptions(_SERVICE))] == [directory.path.resolve()]
