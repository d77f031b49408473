"""`profile` on a real Spark and real planes equals what is counted of the same records by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import nullcontext
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.made_segments import tier_batches
from support.planes import Planes
from support.record_batches import MadeBatch, MadeRecord
from tiergate_client import connect
from tiergate_client.errors import TopicNotFound
from tiergate_client.exit_codes import ExitCode
from tiergate_client.ids import TopicId
from tiergate_client.records import Codec
from tiergate_spark.options import Service
from tiergate_spark.pipelines import profile as pipeline
from tiergate_spark.pipelines import profile_command
from tiergate_spark.pipelines.cli import run
from tiergate_spark.pipelines.profile import Profile, profile

pytestmark = pytest.mark.timeout(300)

HOUR_MS = 3_600_000
FIRST_MS = 1_700_002_800_000
TOPIC = "profiled"


def made_batches(partition: int) -> list[MadeBatch]:
    """Fifteen batches of all codecs over three hours; the middle one of each five lies in two hours."""
    batches = []
    for number in range(15):
        start = FIRST_MS + number // 5 * HOUR_MS + number % 5 * HOUR_MS // 4
        records = tuple(
            MadeRecord(
                delta,
                timestamp_delta=delta * HOUR_MS // 50,
                key=None if delta % 7 == 0 else b"key-%d-%d" % (partition, delta % 11) if delta % 5 else b"",
                value=None if delta % 9 == 0 else b"value " * (delta + 1),
            )
            for delta in range(20)
        )
        last_ms = start + records[-1].timestamp_delta
        batches.append(
            MadeBatch(
                records,
                base_offset=20 * number,
                attributes=number % len(Codec),
                base_timestamp_ms=start,
                max_timestamp_ms=last_ms,
            )
        )
    return batches


@pytest.fixture(scope="module")
def batches(planes: Planes) -> list[MadeBatch]:
    """Of two partitions, each in three segments."""
    topic_id = TopicId.random()
    written = []
    with connect(planes.target) as tiergate:
        for partition in (0, 1):
            made = made_batches(partition)
            written += made
            for begin in (0, 5, 10):
                part = made[begin : begin + 5]
                end_offset = part[-1].base_offset + 19
                tier_batches(tiergate, part, topic=TOPIC, topic_id=topic_id, partition=partition, end_offset=end_offset)
    return written


@pytest.fixture(scope="module")
def measured(spark: SparkSession, planes: Planes, batches: list[MadeBatch]) -> Profile:
    return profile(spark, [TOPIC], service=Service(planes.target, None, "auto"))


def counted(batches: list[MadeBatch]) -> dict[int, dict[str, Any]]:
    """By hour."""
    hours: dict[int, dict[str, Any]] = defaultdict(lambda: defaultdict(float))
    keys: dict[int, set[bytes]] = defaultdict(set)
    sizes: dict[int, list[int]] = defaultdict(list)
    for batch in batches:
        share = 1 / len(batch.records)
        for record in batch.records:
            hour_ms = (batch.base_timestamp_ms + record.timestamp_delta) // HOUR_MS * HOUR_MS
            hour = hours[hour_ms]
            hour["records"] += 1
            hour["stored_bytes"] += len(batch.encode()) * share
            hour["plain_bytes"] += len(batch.but(attributes=0).encode()) * share
            hour[Codec(batch.attributes).name.lower()] += len(batch.encode()) * share
            hour["null_keys"] += record.key is None
            hour["tombstones"] += record.value is None
            hour["key_bytes"] += len(record.key or b"")
            hour["value_bytes"] += len(record.value or b"")
            keys[hour_ms] |= set() if record.key is None else {record.key}
            sizes[hour_ms].append(len(record.key or b"") + len(record.value or b""))
    for hour_ms, hour in hours.items():
        hour["distinct_keys"] = len(keys[hour_ms])
        hour["p50"] = sorted(sizes[hour_ms])[(len(sizes[hour_ms]) - 1) // 2]
    return hours


def test_nothing_is_kept_of_a_profile_that_failed(
    spark: SparkSession, planes: Planes, batches: list[MadeBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept_frames() -> int:
        count: int = spark._jsparkSession.sharedState().cacheManager().numCachedEntries()
        return count

    def fail(*_: object, **__: object) -> None:
        raise TimeoutError("the job failed")

    before = kept_frames()
    monkeypatch.setattr(pipeline, "followed_jobs", fail)
    with pytest.raises(TimeoutError):
        profile(spark, [TOPIC], service=Service(planes.target, None, "auto"))
    assert kept_frames() == before


def test_every_hour_is_what_is_counted_by_hand(measured: Profile, batches: list[MadeBatch]) -> None:
    rows = {round(row.hour.astimezone(UTC).timestamp()) * 1000: row for row in measured.hours.collect()}
    expected = counted(batches)
    assert list(rows) == sorted(expected)
    assert len(rows) == 4
    for hour_ms, hour in expected.items():
        row = rows[hour_ms]
        exact = ("records", "null_keys", "tombstones", "key_bytes", "value_bytes")
        assert {name: row[name] for name in exact} == {name: hour[name] for name in exact}
        assert row.distinct_keys == pytest.approx(hour["distinct_keys"], rel=0.06, abs=1)
        for name in ("stored_bytes", "plain_bytes"):
            assert row[name] == pytest.approx(hour[name], abs=1)
        assert row.compression_ratio == pytest.approx(hour["plain_bytes"] / hour["stored_bytes"], abs=0.001)
        assert row.codec_bytes == {
            name: pytest.approx(hour[name], abs=1) for name in ("none", "gzip", "snappy", "lz4", "zstd") if hour[name]
        }
        assert row.record_bytes_p50 == pytest.approx(hour["p50"], abs=8)
        assert row.record_bytes_p50 <= row.record_bytes_p95 <= row.record_bytes_p99


def test_topic_is_the_sum_of_its_hours_with_keys_counted_once(measured: Profile, batches: list[MadeBatch]) -> None:
    (row,) = measured.topics.collect()
    assert (row.topic, row.records, row.batches) == (TOPIC, 20 * len(batches), len(batches))
    assert row.stored_bytes == sum(len(batch.encode()) for batch in batches)
    assert row.plain_bytes == sum(len(batch.but(attributes=0).encode()) for batch in batches)
    keys = {record.key for batch in batches for record in batch.records} - {None}
    assert row.distinct_keys == pytest.approx(len(keys), rel=0.06, abs=1)


def test_options_of_the_source_choose_what_is_profiled(
    spark: SparkSession, planes: Planes, batches: list[MadeBatch]
) -> None:
    options = {"endingOffsets": json.dumps({TOPIC: {"0": 30, "1": 0}})}
    chosen = profile(spark, [TOPIC], service=Service(planes.target, None, "auto"), options=options)
    assert chosen.topics.collect()[0].records == 30
    chosen.close()


def test_unknown_topic_is_refused_by_name(spark: SparkSession, planes: Planes) -> None:
    with pytest.raises(TopicNotFound, match="nowhere"):
        profile(spark, ["nowhere"], service=Service(planes.target, None, "auto"))


def test_command_writes_a_page_and_a_summary(
    spark: SparkSession,
    planes: Planes,
    batches: list[MadeBatch],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profile_command, "running_spark", lambda *_, **__: nullcontext(spark))
    page = tmp_path / "page.html"
    report = str(tmp_path / "report")
    words = ["--target", planes.target, "profile", TOPIC, "--html", str(page), "--report", report, "-o", "json"]
    assert run(words) == 0
    (topic,) = json.loads(capfd.readouterr().out)["topics"]
    assert topic["records"] == 20 * len(batches)
    assert [hour["records"] for hour in topic["hours"]] == [row.records for row in _by_hour(spark, report)]
    assert run(words) == ExitCode.REFUSED
    assert f"{report} exists already" in json.loads(capfd.readouterr().err)["error"]["message"]
    assert _by_hour(spark, report)
    text = page.read_text()
    assert text.count("<svg") == 6
    assert TOPIC in text


def _by_hour(spark: SparkSession, report: str) -> list[Any]:
    return spark.read.parquet(report).orderBy("hour").collect()
