"""`tiergate records`: what is printed, which records are chosen, and what wrong arguments are told."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from unit.cli.conftest import Cli, Result

from support.in_process_tiergate import InProcessTiergate
from support.made_segments import tier_batches
from support.record_batches import MadeBatch, MadeRecord
from support.segments import make_metadata
from tiergate_client.ids import TopicId
from tiergate_client.values import PartitionDeleteState, RemotePartitionDeleteMetadata
from tiergate_server.cli.moments import parse_moment

LOG_APPEND_TIME = 0x08
RECORDS = (
    MadeRecord(0, 0, b"customer-1", b'{"total": 5}', ((b"trace", b"\x00\xff"), (b"empty", None))),
    MadeRecord(1, 1000, None, b"\x00\x01"),
    MadeRecord(2, 2500, b"", None),
)


@pytest.fixture
def topic_id(tiergate: InProcessTiergate) -> TopicId:
    """Two partitions of `shop`: three records each, at 0, 1 and 2.5 s past 2023-11-14T22:13:20Z."""
    topic_id = TopicId.random()
    for partition, attributes in ((0, 0), (1, LOG_APPEND_TIME)):
        batch = MadeBatch(RECORDS, base_offset=10, attributes=attributes, max_timestamp_ms=1_700_000_002_500)
        tier_batches(tiergate, [batch], topic="shop", topic_id=topic_id, end_offset=12, partition=partition)
    return topic_id


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("topic_id")
class TestOfTwoPartitions:
    def test_json_has_a_line_for_each_record(self, cli: Cli) -> None:
        first, second, third, *others = lines(cli("records", "shop", "-o", "json"))
        assert first == {
            "partition": 0,
            "offset": 10,
            "timestamp_ms": 1_700_000_000_000,
            "timestamp_type": "CreateTime",
            "key": "Y3VzdG9tZXItMQ==",
            "value": "eyJ0b3RhbCI6IDV9",
            "headers": [{"key": "trace", "value": "AP8="}, {"key": "empty", "value": None}],
        }
        assert (second["key"], b64decode(second["value"]), second["headers"]) == (None, b"\x00\x01", [])
        assert (third["key"], third["value"], third["timestamp_ms"]) == ("", None, 1_700_000_002_500)
        assert {(one["partition"], one["timestamp_type"]) for one in others} == {(1, "LogAppendTime")}

    def test_people_see_text_where_it_is_printable(self, cli: Cli) -> None:
        first, second, third, *_ = cli("records", "shop").stdout.splitlines()
        assert first == ('0:10  2023-11-14T22:13:20.000Z  customer-1  {"total": 5}  trace=base64:AP8=  empty=(null)')
        assert second == "0:11  2023-11-14T22:13:21.000Z  (null)  base64:AAE="
        assert third == "0:12  2023-11-14T22:13:22.500Z    (null)"

    @pytest.mark.parametrize(
        ("arguments", "offsets"),
        [
            (("-p", "1"), [10, 11, 12]),
            (("-p", "0", "--from-offset", "11"), [11, 12]),
            (("-p", "0", "--to-offset", "11"), [10]),
            (("-p", "0", "--from-time", "1700000000001"), [11, 12]),
            (("-p", "0", "--from-time", "2023-11-14T22:13:22Z"), [12]),
            (("-p", "0", "--from-time", "2023-11-14T23:13:21+01:00", "--to-time", "2023-11-14T22:13:22Z"), [11]),
            (("--limit", "4"), [10, 11, 12, 10]),
            (("--limit", "2"), [10, 11]),
            (("-p", "0", "--from-time", "2030-01-01"), []),
            (("-p", "0", "--isolation", "read_committed"), [10, 11, 12]),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_records_are_chosen(self, cli: Cli, arguments: tuple[str, ...], offsets: list[int]) -> None:
        assert [one["offset"] for one in lines(cli("records", "shop", *arguments, "-o", "json"))] == offsets

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("--from-offset", "11"), "shop has 2 partitions, each with offsets of its own: name one with -p"),
            (("--from-offset", "1", "--from-time", "5"), "give one of them"),
            (("--to-offset", "1", "--to-time", "5"), "give one of them"),
            (("--from-time", "yesterday"), "'yesterday' is no time: write it like"),
            (("--from-time", "1969-01-01"), "is before 1970"),
            (("--isolation", "none"), "'--isolation': 'none' is not one of 'read_uncommitted', 'read_committed';"),
            (("-o", "jsn"), "'--output' / '-o': 'jsn' is not one of 'human', 'json';"),
            (("-p", "0", "--from-offset", "5"), "can be read from offset 10 up to 13, not at 5"),
            (("-p", "0", "--from-offset", "99"), "or accept the loss of data (--skip-missing)"),
            (
                ("-p", "0", "--from-offset", "12", "--to-offset", "11"),
                "--from-offset and --to-offset: 11 is below 12, so that nothing lies between them: exchange them",
            ),
            (
                ("--from-time", "2023-11-15", "--to-time", "2023-11-14"),
                "--from-time and --to-time: 2023-11-14 is before 2023-11-15, so that nothing lies between them",
            ),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_wrong_arguments_are_told(self, cli: Cli, arguments: tuple[str, ...], sentence: str) -> None:
        result = cli("records", "shop", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert sentence in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ((), "6 records"),
            (("-p", "1", "--limit", "1"), "1 record, and there may be more: --limit N shows up to N"),
            (("-p", "1", "--limit", "3"), "3 records"),
            (("--limit", "3"), "3 records, and there may be more: --limit N shows up to N"),
            (("--limit", "6"), "6 records"),
            (("--from-time", "2030-01-01"), "no records of shop were found; `tiergate ls shop` lists what is tiered"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_people_are_told_how_many_there_were_and_how_to_get_more(
        self, cli: Cli, arguments: tuple[str, ...], told: str
    ) -> None:
        assert cli("records", "shop", *arguments).stderr == f"{told}\n"
        assert cli("records", "shop", *arguments, "-o", "json").stderr == ""

    def test_start_behind_the_end_is_told_when_missing_offsets_are_passed(self, cli: Cli) -> None:
        arguments = ("records", "shop", "-p", "0", "--from-offset", "99", "--skip-missing")
        told = "partition 0 ends before offset 13, and holds nothing from 99 on"
        result = cli(*arguments)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr.splitlines()[0] == f"tiergate: {told}"
        result = cli(*arguments, "-o", "json")
        assert (result.exit_code, result.stdout, json.loads(result.stderr)) == (0, "", {"warning": told})

    def test_offsets_behind_the_end_are_told_once_when_they_are_passed(self, cli: Cli) -> None:
        result = cli("records", "shop", "-p", "0", "--from-offset", "99", "--to-offset", "105", "--skip-missing")
        assert result.stderr.splitlines()[:-1] == ["tiergate: partition 0 misses the offsets 99 to 104"]

    def test_unknown_partition_is_not_found(self, cli: Cli) -> None:
        assert cli("records", "shop", "-p", "7").exit_code == 3


def test_unknown_topic_is_not_found(cli: Cli) -> None:
    result = cli("records", "nobody", "-o", "json")
    assert (result.exit_code, result.error["reason"]) == (3, "TOPIC_NOT_FOUND")


def test_name_of_two_topics_lists_both(cli: Cli, tiergate: InProcessTiergate, topic_id: TopicId) -> None:
    other = TopicId.random()
    tier_batches(tiergate, [MadeBatch(RECORDS[:1])], topic="shop", topic_id=other, end_offset=0)
    result = cli("records", "shop")
    assert result.exit_code == 2
    assert all(str(one) in result.stderr for one in (topic_id, other))
    assert "--topic-id" in result.stderr
    assert len(lines(cli("records", "shop", "--topic-id", str(other), "-o", "json"))) == 1


def test_missing_offsets_are_passed_when_that_is_wanted(cli: Cli, tiergate: InProcessTiergate) -> None:
    topic_id = TopicId.random()
    for base_offset in (0, 10):
        batch = MadeBatch(RECORDS, base_offset=base_offset)
        tier_batches(tiergate, [batch], topic="holes", topic_id=topic_id, end_offset=base_offset + 2)
    result = cli("records", "holes")
    assert result.exit_code == 2
    assert "3 to 9" in result.stderr
    result = cli("records", "holes", "--skip-missing")
    assert result.stderr == "tiergate: partition 0 misses the offsets 3 to 9\n6 records\n"
    assert len(result.stdout.splitlines()) == 6


def test_people_are_told_that_nothing_is_there_when_no_segment_is_finished(
    cli: Cli, tiergate: InProcessTiergate
) -> None:
    tiergate.metadata.add_segment(make_metadata(topic="begun", topic_id=TopicId.random()))
    result = cli("records", "begun")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no records of begun were found; `tiergate ls begun` lists what is tiered\n"


def test_people_are_shown_a_few_and_programs_all(cli: Cli, tiergate: InProcessTiergate) -> None:
    batch = MadeBatch(tuple(MadeRecord(number) for number in range(50)))
    tier_batches(tiergate, [batch], topic="many", topic_id=TopicId.random(), end_offset=49)
    assert len(cli("records", "many").stdout.splitlines()) == 20
    assert len(cli("records", "many", "--limit", "30").stdout.splitlines()) == 30
    assert len(lines(cli("records", "many", "-o", "json"))) == 50


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("20231114", 1_699_920_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
    ],
)
def test_moment_is_read_as_it_is_written(text: str, milliseconds: int) -> None:
    assert parse_moment(text, option="--from-time") == milliseconds


@pytest.mark.parametrize("arguments", [(), ("-p", "0")], ids=["all", "one"])
def test_topic_whose_partitions_were_all_deleted_is_not_found(
    cli: Cli, tiergate: InProcessTiergate, arguments: tuple[str, ...]
) -> None:
    batch = MadeBatch(RECORDS)
    segment = tier_batches(tiergate, [batch], topic="gone", topic_id=TopicId.random(), end_offset=2)
    for state in PartitionDeleteState:
        tiergate.metadata.put_partition_delete(RemotePartitionDeleteMetadata(segment.partition, state, 5, 2))
    result = cli("records", "gone", *arguments, "-o", "json")
    assert (result.exit_code, result.error["reason"]) == (3, "TOPIC_NOT_FOUND")
