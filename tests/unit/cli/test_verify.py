"""`tiergate verify` on the real domain in this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from support.segments import make_metadata
from support.stored_objects import DirectoryObjects
from support.waiting import wait_until
from tiergate_client.errors import StorageUnavailable, Unavailable
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_client.verification import VerificationProgress
from tiergate_server.cli.verify_run import verdicts
from tiergate_server.kafka_files.sample import SamplePartition


@pytest.fixture
def objects(tmp_path: Path) -> DirectoryObjects:
    return DirectoryObjects(tmp_path / "objects")


@pytest.fixture
def segments(tiergate: InProcessTiergate, stored: list[str]) -> list[RemoteLogSegmentMetadata]:
    return [tiergate.metadata.get_segment(SegmentId.from_text(segment)) for segment in stored]


@pytest.mark.parametrize("what", [["orders"], ["orders", "-p", "0"], ["--all"]])
def test_verify_says_that_nothing_differs(
    cli: Cli, stored: list[str], sample: SamplePartition, what: list[str]
) -> None:
    result = cli("verify", *what)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("3 segments verified, ")
    assert result.stdout.endswith("nothing differs\n")
    document = cli("verify", *what, "-o", "json").document
    assert document["whole_segment_count"] == len(stored)
    assert document["partial"] is False
    assert document["damaged"] == document["not_verified"] == []
    rolled_bytes = sum(path.stat().st_size for path in sorted(sample.directory.glob("*.log"))[: len(stored)])
    assert rolled_bytes < document["verified_bytes"] < 2 * rolled_bytes


def test_verify_takes_segments_by_id_each_once(cli: Cli, stored: list[str]) -> None:
    document = cli(
        "verify", "--segment", stored[0], "--segment", stored[1], "--segment", stored[0], "-o", "json"
    ).document
    assert document["whole_segment_count"] == 2


@pytest.mark.parametrize("what", [[], ["orders", "--all"], ["orders", "--segment", "AAAAAAAAAAAAAAAAAAAAAQ"]])
def test_verify_wants_to_know_what_and_only_one_of_it(cli: Cli, what: list[str]) -> None:
    result = cli("verify", *what)
    assert result.exit_code == 2
    assert "name a TOPIC, or a --segment, or --all" in result.stderr


def test_verify_of_a_partition_needs_the_topic(cli: Cli) -> None:
    assert cli("verify", "--all", "-p", "1").exit_code == 2


def test_verify_passes_over_what_is_not_finished(cli: Cli, tiergate: InProcessTiergate, stored: list[str]) -> None:
    topic_id = tiergate.metadata.get_segment(SegmentId.from_text(stored[0])).partition.topic_id
    begun = make_metadata(topic_id=topic_id)
    tiergate.metadata.add_segment(begun)
    assert cli("verify", "orders", "-o", "json").document["whole_segment_count"] == len(stored)
    result = cli("verify", "--segment", str(begun.segment_id))
    assert result.exit_code == 5
    assert "is in COPY_STARTED" in result.stderr


def test_verify_of_an_unknown_topic_or_segment_is_not_found(cli: Cli) -> None:
    assert cli("verify", "nobody-knows").exit_code == 3
    assert cli("verify", "--segment", str(SegmentId(bytes(15) + b"\x01"))).exit_code == 3


@pytest.mark.parametrize("file", [file for file in SegmentFile if file is not SegmentFile.TXN_INDEX])
def test_verify_reports_damage_in_any_file_and_ends_with_1(
    cli: Cli, objects: DirectoryObjects, segments: list[RemoteLogSegmentMetadata], file: SegmentFile
) -> None:
    damaged = segments[1]
    objects.flip(damaged, file, position=5)
    result = cli("verify", "orders")
    assert result.exit_code == 1
    header, row, _, summary = result.stdout.splitlines()
    assert header.split() == ["SEGMENT", "PARTITION", "FILE", "POSITION", "WHAT"]
    fact = ["does", "not", "match", "its", "checksum"]
    assert row.split() == [str(damaged.segment_id), "orders-0", file.value.replace("_", "-"), "0", *fact]
    assert summary.startswith("1 of 3 segments damaged")
    assert "tiergate rm" in summary
    result = cli("verify", "orders", "-o", "json")
    assert (result.exit_code, result.stderr) == (1, "")
    (found,) = result.document["damaged"]
    assert found["segment"]["segment_id"] == str(damaged.segment_id)
    assert found["damages"] == [{"file": file.value, "position": 0, "fact": "does not match its checksum"}]


def test_verify_reports_files_that_are_missing(
    cli: Cli, objects: DirectoryObjects, segments: list[RemoteLogSegmentMetadata]
) -> None:
    objects.remove(objects.key_of(segments[0], SegmentFile.LOG))
    objects.remove(objects.key_of(segments[2], None))
    result = cli("verify", "orders", "-o", "json")
    assert result.exit_code == 1
    found = {damaged["segment"]["segment_id"]: damaged["damages"] for damaged in result.document["damaged"]}
    assert found == {
        str(segments[0].segment_id): [{"file": "log", "position": 0, "fact": "is missing"}],
        str(segments[2].segment_id): [{"file": "manifest", "position": 0, "fact": "is missing"}],
    }


def test_verify_reports_a_damaged_manifest(
    cli: Cli, objects: DirectoryObjects, segments: list[RemoteLogSegmentMetadata]
) -> None:
    objects.flip(segments[0], None, position=40)
    result = cli("verify", "orders")
    assert result.exit_code == 1
    assert "manifest" in result.stdout


def test_verify_passes_over_a_segment_that_is_deleted_meanwhile(
    cli: Cli, tiergate: InProcessTiergate, segments: list[RemoteLogSegmentMetadata], monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_segment = tiergate.watched_storage.verify_segment

    def deleted_first(metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        if metadata == segments[1]:
            tiergate.metadata.update_segment(metadata.step(SegmentState.DELETE_STARTED, event_timestamp_ms=1))
            tiergate.storage.delete_segment(metadata)
        return verify_segment(metadata)

    monkeypatch.setattr(tiergate.watched_storage, "verify_segment", deleted_first)
    result = cli("verify", "orders", "-o", "json")
    assert result.exit_code == 0
    assert (result.document["whole_segment_count"], result.document["deleted_segment_count"]) == (2, 1)


@pytest.mark.parametrize("is_another_damaged", [False, True])
def test_verify_never_takes_a_failing_store_for_damage(
    cli: Cli,
    tiergate: InProcessTiergate,
    objects: DirectoryObjects,
    segments: list[RemoteLogSegmentMetadata],
    monkeypatch: pytest.MonkeyPatch,
    is_another_damaged: bool,
) -> None:
    verify_segment = tiergate.watched_storage.verify_segment

    def failing(metadata: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        told = verify_segment(metadata)
        yield next(told)
        if metadata == segments[1]:
            raise StorageUnavailable("the store is away", retry_after_ms=5)
        yield from told

    monkeypatch.setattr(tiergate.watched_storage, "verify_segment", failing)
    if is_another_damaged:
        objects.flip(segments[2], SegmentFile.LOG, position=0)
    result = cli("verify", "orders")
    assert result.exit_code == (1 if is_another_damaged else 4)
    assert "1 segment not verified" in result.stdout
    (failed,) = cli("verify", "orders", "-o", "json").document["not_verified"]
    assert failed["segment"]["segment_id"] == str(segments[1].segment_id)
    assert failed["error"] == "the store is away"


def test_verify_gives_up_when_the_segment_plane_is_out_of_reach(
    cli: Cli, tiergate: InProcessTiergate, stored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_answers(_: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        raise Unavailable("failed to connect to all addresses")

    assert stored
    monkeypatch.setattr(tiergate.watched_storage, "verify_segment", nobody_answers)
    result = cli("verify", "orders")
    assert result.exit_code == 4
    assert "cannot reach the segment plane" in result.stderr


class HeldVerifications:
    """Verifications that stand still until they are let go."""

    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.begun = 0
        self.let_go = threading.Event()
        self._lock = threading.Lock()

    def verify_segment(self, _: RemoteLogSegmentMetadata) -> Iterator[VerificationProgress]:
        with self._lock:
            self.begun += 1
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        yield VerificationProgress(0, 10)
        self.let_go.wait(20)
        with self._lock:
            self.running -= 1
        yield VerificationProgress(10, 10)


@pytest.fixture
def held(tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch) -> HeldVerifications:
    held = HeldVerifications()
    monkeypatch.setattr(tiergate.watched_storage, "verify_segment", held.verify_segment)
    return held


def test_as_many_segments_as_asked_for_are_verified_at_once(
    tiergate: InProcessTiergate, held: HeldVerifications
) -> None:
    listed = 0

    def segments() -> Iterator[RemoteLogSegmentMetadata]:
        nonlocal listed
        for _ in range(10):
            listed += 1
            yield make_metadata()

    run = verdicts(tiergate, segments(), parallel=3, observe=lambda _metadata, _progress: None)
    first = threading.Thread(target=lambda: list(run))
    first.start()
    wait_until(lambda: held.running == 3)
    assert listed == 3, "the others are listed when there is room for them"
    held.let_go.set()
    first.join()
    assert (held.begun, held.most_running) == (10, 3)


def test_ctrl_c_ends_the_run_without_waiting_for_what_is_under_way(
    held: HeldVerifications, cli: Cli, stored: list[str]
) -> None:
    """Raised in another thread, the signal ends no wait of the main one, as one that comes just before does not."""
    assert stored

    def interrupt() -> None:
        wait_until(lambda: held.running == 2)
        signal.raise_signal(signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    result = cli("verify", "orders", "--parallel", "2")
    interrupting.join()
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert held.running == 2, "nobody waited for them"
    held.let_go.set()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("verify")])
    assert held.begun == 2


def test_verify_shows_a_topic_id_is_needed_when_a_name_has_two(cli: Cli, tiergate: InProcessTiergate) -> None:
    for _ in range(2):
        tiergate.metadata.add_segment(make_metadata(topic_id=TopicId.random()))
    result = cli("verify", "orders")
    assert result.exit_code == 2
    assert "--topic-id" in result.stderr
