"""`verify` on a real Spark and real planes: what is stored is damaged behind their backs, found, named and located."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.made_segments import tier_batches
from support.passing_outages import away_once
from support.planes import Planes, running_planes
from support.record_batches import MadeBatch, MadeRecord
from support.stored_objects import DirectoryObjects
from support.tiering import tier_segments
from tiergate_client import Tiergate, connect
from tiergate_client.errors import TopicNotFound
from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import TopicId
from tiergate_client.records import scan_batches
from tiergate_client.segment_files import SegmentFile
from tiergate_client.values import RemoteLogSegmentMetadata, SegmentState
from tiergate_server.kafka_files.sample import write_sample
from tiergate_spark.options import Service
from tiergate_spark.pipelines import verify as pipeline
from tiergate_spark.pipelines import verify_command
from tiergate_spark.pipelines.cli import run
from tiergate_spark.pipelines.verify import Verification, verify

pytestmark = pytest.mark.timeout(300)


class DamagedTier:
    """Planes with a sound topic and a damaged one."""

    def __init__(self, directory: Path, planes: Planes, tiergate: Tiergate) -> None:
        self.target = planes.target
        self.service = Service(planes.target, None, "auto")
        sample = write_sample(directory / "sound", topic="sound", segments=4, segment_bytes=32 * 1024)
        self.sound = tier_segments(tiergate, sample.directory)
        logs = sorted(sample.directory.glob("*.log"))[: len(self.sound)]
        self.sound_batches = [header for log in logs for header in scan_batches(log.read_bytes())]
        sample = write_sample(directory / "damaged", topic="damaged", segments=6, segment_bytes=32 * 1024)
        self.damaged = tier_segments(tiergate, sample.directory)
        self._damage(tiergate, DirectoryObjects(directory / "planes"))
        records = tuple(MadeRecord(number, value=b"value") for number in range(4))
        batches = [MadeBatch(records, base_offset=base) for base in range(0, 40, 4)]
        self.wrong_checksum_at = 5 * len(batches[0].encode())
        self.wrong_checksum = tier_batches(
            tiergate,
            batches,
            topic="damaged",
            topic_id=TopicId.random(),
            end_offset=39,
            damage_at=self.wrong_checksum_at + 70,
        )

    def _damage(self, tiergate: Tiergate, stored: DirectoryObjects) -> None:
        """The first one's log, the second one's index; the third one's manifest is gone, and all of the fourth."""
        log, index, manifest, whole = self.damaged[:4]
        stored.flip(log, SegmentFile.LOG, position=1000)
        stored.flip(index, SegmentFile.TIME_INDEX, position=3)
        stored.remove(stored.key_of(manifest, None))
        for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED):
            tiergate.metadata.update_segment(whole.step(state, event_timestamp_ms=1))


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DamagedTier]:
    directory = tmp_path_factory.mktemp("verified")
    with running_planes(directory / "planes") as planes, connect(planes.target) as tiergate:
        yield DamagedTier(directory, planes, tiergate)


@pytest.fixture(scope="module")
def everything(spark: SparkSession, tier: DamagedTier) -> Iterator[Verification]:
    verification = verify(spark, service=tier.service)
    yield verification
    verification.close()


def told(verification: Verification, segment: RemoteLogSegmentMetadata) -> list[tuple[str, str, int | None]]:
    rows = verification.findings.where(f"segment_id = '{segment.segment_id}'").collect()
    return sorted((row.kind, row.file, row.position) for row in rows)


def test_sound_topic_has_no_findings_and_is_counted_whole(spark: SparkSession, tier: DamagedTier) -> None:
    verification = verify(spark, service=tier.service, topics=["sound"])
    summary = verification.summary
    assert verification.findings.count() == 0
    assert summary.is_sound
    assert (summary.partitions, summary.segments, summary.damaged_segments) == (1, len(tier.sound), 0)
    assert summary.batches == len(tier.sound_batches)
    assert summary.records == sum(batch.record_count for batch in tier.sound_batches if not batch.is_control)
    assert summary.control_records == sum(batch.record_count for batch in tier.sound_batches if batch.is_control)
    rows = {row.segment_id: row for row in verification.segments.collect()}
    for segment in tier.sound:
        row = rows[str(segment.segment_id)]
        assert (row.start_offset, row.end_offset, row.damages) == (segment.start_offset, segment.end_offset, 0)
        assert row.checked_bytes > segment.segment_size_bytes == row.log_bytes
    verification.close()


def test_damage_of_each_kind_is_found_and_located(everything: Verification, tier: DamagedTier) -> None:
    log, index, manifest, deleted = tier.damaged[:4]
    assert told(everything, log) == [("stored_data", "log", 0)]
    assert told(everything, index) == [("stored_data", "time_index", 0)]
    assert told(everything, manifest) == [("manifest_missing", "manifest", None)]
    assert told(everything, tier.wrong_checksum) == [("batch_checksum", "log", tier.wrong_checksum_at)]
    (hole,) = everything.findings.where("kind = 'missing_offsets'").collect()
    assert (hole.topic, hole.partition, hole.segment_id, hole.severity) == ("damaged", 0, None, "damage")
    assert hole.offset == deleted.start_offset
    summary = everything.summary
    assert (summary.damages, summary.damaged_segments) == (5, 4)
    assert summary.segments == len(tier.sound) + len(tier.damaged)
    assert everything.segments.where("damages > 0").count() == 4


def test_both_topics_of_a_name_are_checked(everything: Verification) -> None:
    rows = everything.segments.where("topic = 'damaged'").select("topic_id").distinct().collect()
    assert len(rows) == 2


def test_plane_that_is_away_while_segments_are_listed_is_waited_for(
    spark: SparkSession, tier: DamagedTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    away_once(monkeypatch, pipeline, "partitions_of", "check_partition", "located")
    verification = verify(spark, service=tier.service, topics=["sound"])
    assert verification.summary.segments == len(tier.sound)
    verification.close()


def test_nothing_is_kept_of_a_verification_that_failed(
    spark: SparkSession, tier: DamagedTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept_frames() -> int:
        count: int = spark._jsparkSession.sharedState().cacheManager().numCachedEntries()
        return count

    def fail(*_: object) -> None:
        raise TimeoutError("the job failed")

    before = kept_frames()
    monkeypatch.setattr(pipeline, "_findings", fail)
    with pytest.raises(TimeoutError):
        verify(spark, service=tier.service, topics=["sound"])
    assert kept_frames() == before


def test_unknown_topic_is_refused_by_name(spark: SparkSession, tier: DamagedTier) -> None:
    with pytest.raises(TopicNotFound, match="nowhere"):
        verify(spark, service=tier.service, topics=["sound", "nowhere"])


def test_command_tells_damage_by_its_exit_code_and_writes_all_findings(
    spark: SparkSession,
    tier: DamagedTier,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_command, "running_spark", lambda *_, **__: nullcontext(spark))
    report = str(tmp_path / "report")
    words = ["--target", tier.target, "verify", "damaged", "--report", report]
    assert run([*words, "-o", "json"]) == ExitCode.CORRUPT
    document = json.loads(capfd.readouterr().out)
    assert document["damages"] == 5
    assert [finding["severity"] for finding in document["findings"][:5]] == ["damage"] * 5
    assert spark.read.parquet(report).count() == len(document["findings"])
    assert run(words) == ExitCode.REFUSED
    assert f"{report} exists already; remove it, or name a new directory with --report" in capfd.readouterr().err
    assert spark.read.parquet(report).count() == len(document["findings"])
    assert run([*words[:-1], f"{report}-2"]) == ExitCode.CORRUPT
    log = tier.damaged[0].segment_id
    lines = capfd.readouterr().out.splitlines()
    assert f"damage: damaged-0, segment {log}, log at byte 0: the log does not match its checksum" in "\n".join(lines)
    assert lines[-2].startswith("damaged: 4 segments; restore")
    assert lines[-1] == f"the report is in {report}-2"


def test_command_ends_well_when_all_is_sound(
    spark: SparkSession,
    tier: DamagedTier,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_command, "running_spark", lambda *_, **__: nullcontext(spark))
    assert run(["--target", tier.target, "verify", "sound"]) == ExitCode.DONE
    assert capfd.readouterr().out.rstrip().endswith("; no findings")
