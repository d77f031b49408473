"""Options are read as Spark's Kafka source reads them, and a wrong one is refused in a sentence that names it."""

from __future__ import annotations

import logging
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.errors import InvalidField
from tiergate_client.ids import TopicId
from tiergate_spark.batch_rules import check_batch_options
from tiergate_spark.offsets import EarliestOffsets, GivenOffsets, GivenTimes, LatestOffsets, TimeForAll
from tiergate_spark.option_names import OPTIONS
from tiergate_spark.options import SourceOptions, parse_options
from tiergate_spark.topic_selection import Assign, Subscribe, SubscribePattern

NEEDED = {"target": "host:7400", "subscribe": "orders"}
AN_ID = "gj88f1G_wU7PO37M1POUgA"


def parsed(**given: str) -> SourceOptions:
    return parse_options({**NEEDED, **given})


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(InvalidField) as caught:
        parse_options(given)
    return caught.value.message


def batch_refusal(**given: str) -> str:
    options = parsed(**given)
    with pytest.raises(InvalidField) as caught:
        check_batch_options(options)
    return caught.value.message


def test_defaults_are_those_of_kafkas_source() -> None:
    options = parsed()
    assert options.topics == Subscribe(("orders",))
    assert (options.starting, options.ending) == (None, None)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation == "read_uncommitted"
    assert options.starting_without_match == "error"
    assert (options.min_partitions, options.max_records_per_partition, options.log_starts) == (None, None, None)
    assert (options.service.access, options.service.segments, options.split_bytes) == ("auto", None, 128 << 20)


def test_names_are_taken_in_any_case() -> None:
    options = parse_options({"TARGET": "host:1", "SubscribePattern": "a.*", "KAFKA.ISOLATION.LEVEL": "READ_COMMITTED"})
    assert options.service.target == "host:1"
    assert options.topics == SubscribePattern("a.*")
    assert options.isolation == "read_committed"


def test_every_option_is_read() -> None:
    options = parse_options(
        {
            "target": " host:1 ",
            "segments": "host:2",
            "access": "Direct",
            "assign": '{"b":[1,0],"a":[2]}',
            "topicId": AN_ID,
            "startingOffsets": '{"a":{"2":-2},"b":{"0":7,"1":8}}',
            "endingTimestamp": "1700000000000",
            "startingOffsetsByTimestampStrategy": "LATEST",
            "logStartOffset": '{"a":{"2":5}}',
            "minTimestamp": "5",
            "minPartitions": "10",
            "maxRecordsPerPartition": "9999999999",
            "maxOffsetsPerTrigger": "7",
            "splitBytes": "64 MiB",
            "includeHeaders": "TRUE",
            "failOnDataLoss": "false",
            "kafka.isolation.level": "read_committed",
        }
    )
    assert options.service.segments == "host:2"
    assert options.service.access == "direct"
    assert options.topics == Assign(frozenset({("a", 2), ("b", 0), ("b", 1)}))
    assert options.topic_ids == AN_ID
    assert options.starting == GivenOffsets({("a", 2): -2, ("b", 0): 7, ("b", 1): 8})
    assert options.ending == TimeForAll(1_700_000_000_000)
    assert options.starting_without_match == "latest"
    assert options.log_starts == {("a", 2): 5}
    assert (options.min_timestamp_ms, options.min_partitions) == (5, 10)
    assert (options.max_records_per_partition, options.max_offsets_per_trigger) == (9_999_999_999, 7)
    assert options.split_bytes == 64 << 20
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - as Spark sends it


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("startingOffset", "startingOffsets"),
        ("startingOfsets", "startingOffsets"),
        ("endingTimestmap", "endingTimestamp"),
        ("subcribe", "subscribe"),
        ("topics", "subscribe"),
        ("includeHeader", "includeHeaders"),
        ("failOnDataLos", "failOnDataLoss"),
        ("kafka.isolation.levle", "kafka.isolation.level"),
        ("bootstrap.servers", "target"),
        ("minPartition", "minPartitions"),
        ("topicid_", "topicId"),
    ],
)
def test_wrong_name_is_refused_with_the_nearest_right_one(wrong: str, right: str) -> None:
    assert refusal({**NEEDED, wrong: "x"}) == f"{wrong}: there is no such option; did you mean {right!r}?"


def test_name_near_to_none_is_refused_with_all_of_them() -> None:
    assert refusal({**NEEDED, "zzz": "1"}) == f"zzz: there is no such option; there are {', '.join(OPTIONS)}"


def test_path_of_load_is_refused_with_what_to_give() -> None:
    assert refusal({**NEEDED, "path": "orders"}).endswith("load() takes no path, name the topic with subscribe")


@given(st.sampled_from(OPTIONS), st.data())
def test_any_name_with_a_letter_missing_is_refused_with_a_hint(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:place] + name[place + 1 :]
    if wrong.lower() in {option.lower() for option in OPTIONS} or wrong.startswith("kafka."):
        return
    assert "did you mean" in refusal({**NEEDED, wrong: "x"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minPartitions": "0"}, "minPartitions: '0' is not a whole number from 1 to 2147483647"),
        ({"minPartitions": "ten"}, "minPartitions: 'ten' is not a whole number from 1 to 2147483647"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition: '-1' is not a whole number from 1 on"),
        (
            {"startingTimestamp": "2023-11-14T22:20"},
            "startingTimestamp: '2023-11-14T22:20' is not a whole number from 0 on: give milliseconds since the epoch",
        ),
        (
            {"minTimestamp": str(2**63)},
            f"minTimestamp: '{2**63}' is not a whole number from 0 on: give milliseconds since the epoch",
        ),
        ({"target": "host"}, "target: 'host' is not host:port, such as 127.0.0.1:7400"),
        ({"target": "host:0"}, "target: 'host:0' is not host:port, such as 127.0.0.1:7400"),
        ({"target": "host:65536"}, "target: 'host:65536' is not host:port, such as 127.0.0.1:7400"),
        (
            {"target": "http://host:7400"},
            "target: 'http://host:7400' is not host:port, such as 127.0.0.1:7400; leave out http://",
        ),
        ({"segments": "host:7401/"}, "segments: 'host:7401/' is not host:port, such as 127.0.0.1:7400"),
        ({"includeHeaders": "yes"}, "includeHeaders: 'yes' is neither true nor false"),
        ({"splitBytes": "0"}, "splitBytes: '0' is not a size; expected bytes or such as 32m"),
        ({"splitBytes": "big"}, "splitBytes: 'big' is not a size; expected bytes or such as 32m"),
        ({"access": "sideways"}, "access: 'sideways' is none of service, direct, auto"),
        (
            {"kafka.isolation.level": "none"},
            "kafka.isolation.level: 'none' is none of read_uncommitted, read_committed",
        ),
        ({"subscribe": " , "}, "subscribe: ' , ' names nothing; give at least one name"),
        ({"topicId": "short"}, "topicId: 'short' is not an id: expected 22 characters of base64url"),
        ({"topicId": '{"orders":5}'}, "topicId: '{\"orders\":5}' is not valid; expected an id or JSON such as"),
        ({"topicId": '{"orders"'}, "topicId: '{\"orders\"' is not valid; expected an id or JSON such as"),
        (
            {"kafka.auto.offset.reset": "latest"},
            "kafka.auto.offset.reset: it is not supported; say where to start with",
        ),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer: it is not supported; keys are binary"),
        (
            {"assign": '{"a":[0]}'},
            "subscribe: exactly one of subscribe, subscribePattern, assign names the topics, but",
        ),
    ],
)
def test_wrong_value_is_refused_in_one_sentence(given: dict[str, str], message: str) -> None:
    assert refusal({**NEEDED, **given}).startswith(message)


@pytest.mark.parametrize("target", ["10.0.0.1:7400", "tier_gate.local:1", "[::1]:7400", "dns:///planes:7400", "unix:a"])
def test_addresses_are_those_of_hosts_or_of_grpc(target: str) -> None:
    service = parsed(target=target, segments=target).service
    assert (service.target, service.segments) == (target, target)


@pytest.mark.parametrize(
    ("option", "text"), [("startingOffsets", "{"), ("topicId", "{"), ("topicId", "short"), ("startingTimestamp", "now")]
)
def test_refusal_comes_without_the_error_behind_it(option: str, text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parsed(**{option: text})
    assert caught.value.__suppress_context__


def test_no_topics_are_refused() -> None:
    assert refusal({"target": "host:1"}).endswith("names the topics, but none is given")


@pytest.mark.parametrize("pattern", ["", "  ", "a("])
def test_pattern_that_is_none_is_refused(pattern: str) -> None:
    assert refusal({"target": "host:1", "subscribePattern": pattern}).startswith("subscribePattern: ")


def test_user_who_changed_one_word_is_told_what_to_give() -> None:
    assert refusal({"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}) == (
        "target: give the address of Tiergate's metadata plane, such as host:7400 instead of kafka.bootstrap.servers"
    )
    assert refusal({"subscribe": "orders"}) == (
        "target: give the address of Tiergate's metadata plane, such as host:7400"
    )


def test_options_about_consumers_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        kafkas = {"kafka.bootstrap.servers": "b:1", "groupIdPrefix": "x", "kafka.max.poll.records": "5"}
        assert parsed(**kafkas) == parsed()
    (message,) = caplog.messages
    assert message.endswith("no effect here: groupIdPrefix, kafka.bootstrap.servers, kafka.max.poll.records")


@pytest.mark.parametrize("edge", ["starting", "ending"])
def test_of_several_limits_the_one_that_kafkas_source_prefers_is_taken(edge: str) -> None:
    given = {f"{edge}Offsets": "earliest"}
    assert getattr(parsed(**given), edge) == EarliestOffsets()
    given[f"{edge}OffsetsByTimestamp"] = '{"orders":{"0":5}}'
    assert getattr(parsed(**given), edge) == GivenTimes({("orders", 0): 5})
    given[f"{edge}Timestamp"] = "7"
    assert getattr(parsed(**given), edge) == TimeForAll(7)


def test_topic_ids_are_given_by_topic_too() -> None:
    assert parsed(topicId=f'{{"orders":"{AN_ID}"}}').topic_ids == {"orders": AN_ID}
    assert TopicId.from_text(AN_ID)


def test_batch_read_can_not_start_at_the_end() -> None:
    assert parsed(startingOffsets="latest").starting == LatestOffsets()
    assert batch_refusal(startingOffsets="latest") == (
        "startingOffsets: a batch read can not start at latest; give earliest or offsets"
    )
    assert batch_refusal(startingOffsets='{"orders":{"0":3,"1":-1}}') == (
        "startingOffsets: a batch read can not start at latest (-1), as orders-1 does"
    )


def test_batch_read_can_not_end_at_the_beginning() -> None:
    assert batch_refusal(endingOffsets="earliest") == (
        "endingOffsets: a batch read can not end at earliest; give latest or offsets"
    )
    assert batch_refusal(endingOffsets='{"orders":{"0":-2}}') == (
        "endingOffsets: a batch read can not end at earliest (-2), as orders-0 does"
    )


def test_batch_read_can_not_end_before_it_starts() -> None:
    assert batch_refusal(startingOffsets='{"orders":{"0":9}}', endingOffsets='{"orders":{"0":8}}') == (
        "endingOffsets: 8 for orders-0 is before the 9 of startingOffsets"
    )
    times = {"startingOffsetsByTimestamp": '{"a":{"0":9}}', "endingOffsetsByTimestamp": '{"a":{"0":8}}'}
    assert "8 for a-0 is before the 9" in batch_refusal(**times)


def test_batch_read_must_name_the_same_partitions_at_both_ends() -> None:
    assert batch_refusal(startingOffsets='{"orders":{"0":1}}', endingOffsets='{"orders":{"0":8,"1":9}}') == (
        "endingOffsets: it must name the partitions of startingOffsets, but orders-1 is in one only"
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"startingOffsets": "earliest", "endingOffsets": "latest"},
        {"startingOffsets": '{"a":{"0":-2}}', "endingOffsets": '{"a":{"0":-1}}'},
        {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":5}}'},
        {"startingTimestamp": "9", "endingTimestamp": "3"},
        {"startingOffsets": '{"a":{"0":5}}', "endingTimestamp": "3"},
    ],
)
def test_batch_read_may_have_these_limits(given: dict[str, str]) -> None:
    check_batch_options(parsed(**given))


def test_limit_per_trigger_is_ignored_by_a_batch_read_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tiergate_spark"):
        check_batch_options(parsed(maxOffsetsPerTrigger="5"))
    assert caplog.messages == ["maxOffsetsPerTrigger has no effect on a batch read"]
