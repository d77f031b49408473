"""Kafka's own classes agree with us: on the bytes of events, on the partitioner, and on what histories add up to."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from support.kafka_broker import KafkaBroker, running_broker
from support.kafka_jars import KafkaJarsMissing
from support.kafka_model import KafkaPartitionModel
from support.kafka_oracle import METADATA_TOPIC, KafkaManager, KafkaOracle, running_oracle
from support.local_metadata import LocalMetadata
from support.metadata_json import event_json, partition_json
from support.metadata_questions import as_kafka_lists, in_our_order, our_answer, question_of
from support.random_events import random_event, random_partition
from support.random_histories import RandomHistory
from support.waiting import wait_until
from tiergate_client.epochs import LeaderEpochs
from tiergate_client.errors import InvalidTransition, MetadataLogUnavailable, SegmentConflict, SegmentNotFound
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.values import (
    ConsistencyToken,
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    SegmentState,
    TopicIdPartition,
)
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.metadata.event_codec import MetadataEvent, decode_event, encode_event
from tiergate_server.metadata.partitioner import metadata_partition
from tiergate_server.metadata.replica import CallTerms

EVENTS = 12_000
METADATA_PARTITIONS = 3
USER_PARTITIONS = 6
ROUNDS = 20
WAIT_S = 30.0

Log = Mapping[TopicIdPartition, Sequence[MetadataEvent]]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaOracle]:
    with ExitStack() as started:
        try:
            running = started.enter_context(running_oracle(tmp_path_factory.mktemp("oracle")))
        except KafkaJarsMissing as missing:
            pytest.fail(str(missing))
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Of its own: Kafka's manager knows only one name for its topic, which the shared broker may have used."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


class Sides:
    """Opens managers, Kafka's and ours, on the same topic."""

    def __init__(self, oracle: KafkaOracle, broker: KafkaBroker, directory: Path) -> None:
        self._oracle = oracle
        self._bootstrap = broker.bootstrap
        self._directory = directory

    @contextmanager
    def kafka(self) -> Iterator[KafkaManager]:
        manager = KafkaManager(
            self._oracle,
            secrets.token_hex(4),
            bootstrap=self._bootstrap,
            partitions=METADATA_PARTITIONS,
            directory=self._directory,
        )
        try:
            yield manager
        finally:
            manager.close()

    @contextmanager
    def ours(self) -> Iterator[LocalMetadata]:
        settings = KafkaLogSettings(self._bootstrap, METADATA_TOPIC, partitions=METADATA_PARTITIONS, replication=1)
        with closing(KafkaEventLog(settings)) as log:
            wait_until(lambda: has_leaders(log))
            with closing(LocalMetadata(log)) as metadata:
                yield metadata


@pytest.fixture
def sides(oracle: KafkaOracle, broker: KafkaBroker, tmp_path: Path) -> Sides:
    return Sides(oracle, broker, tmp_path)


def test_events_are_the_same_bytes_and_values_in_kafkas_serde(oracle: KafkaOracle) -> None:
    random = Random(4)
    events = [random_event(random) for _ in range(EVENTS)]
    values = [event_json(event) for event in events]
    ours, theirs = [encode_event(event) for event in events], oracle.encode(events)
    assert oracle.decode(ours) == values
    assert [event_json(decode_event(encoded)) for encoded in theirs] == values
    assert ours == theirs


def test_user_partitions_are_mapped_as_kafkas_partitioner_maps_them(oracle: KafkaOracle) -> None:
    random = Random(4)
    questions = [
        (random_partition(random), random.choice((1, 2, 50, random.randint(1, 2**31 - 1)))) for _ in range(EVENTS)
    ]
    ours = [metadata_partition(partition, partition_count=count) for partition, count in questions]
    assert ours == oracle.metadata_partitions(questions)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_histories_of_both_writers_add_up_to_the_same_answers(sides: Sides, seed: int) -> None:
    compare_after_history(sides, seed=seed, epochs_fit=True)


def test_histories_whose_epochs_do_not_fit_their_segments_add_up_to_the_same_answers(sides: Sides) -> None:
    compare_after_history(sides, seed=4, epochs_fit=False)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_histories_add_up_to_the_same_answers(sides: Sides, seed: int) -> None:
    compare_after_history(sides, seed=seed, epochs_fit=seed % 4 != 0)


def test_kafka_does_not_list_a_segment_whose_start_another_takes_and_we_do(sides: Sides) -> None:
    (partition,) = some_partitions(Random(5), count=1)
    longer, shorter = segment(partition, 1, end_offset=200), segment(partition, 2, end_offset=100)
    with sides.kafka() as kafka, sides.ours() as ours:
        kafka.assign(leaders=[partition])
        kafka.write([longer, shorter])
        for finished in (longer, shorter):
            ours.update_segment(finished.step(SegmentState.COPY_FINISHED, event_timestamp_ms=1))
        catch_up(kafka, ours, [partition])
        events = log_of(ours, [partition])[partition]
        assert KafkaPartitionModel.after(events).leaked == {(0, longer.segment_id)}
        assert_same_answers(kafka, ours, {partition: events})


def test_segment_added_again_with_other_epochs_is_listed_in_both_until_its_deletion_after_which_kafka_cannot(
    sides: Sides,
) -> None:
    (partition,) = some_partitions(Random(6), count=1)
    first = segment(partition, 1, end_offset=100)
    second = replace(first, segment_leader_epochs=LeaderEpochs.of({1: 0}), segment_size_bytes=7)
    with sides.kafka() as kafka, sides.ours() as ours:
        kafka.assign(leaders=[partition])
        kafka.write([first, second])
        assert_same_answers_now(kafka, ours, partition)
        assert [each.segment_id for each in ours.list_segments(partition, leader_epoch=0)] == [first.segment_id]
        for state in (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED):
            kafka.write([second.step(state, event_timestamp_ms=1)])
            assert_same_answers_now(kafka, ours, partition)
        kafka.write([second.step(SegmentState.DELETE_FINISHED, event_timestamp_ms=1)])
        catch_up(kafka, ours, [partition])
        in_epoch_1, in_epoch_0 = (
            {
                "partition": partition_json(partition),
                "epochs": [{"epoch": epoch, "offsets": [], "transaction_offsets": []}],
            }
            for epoch in (1, 0)
        )
        answered, failed = kafka.answers([in_epoch_1, in_epoch_0])
        assert answered is not None
        assert failed is None  # for ever: the epoch still names a segment that nobody knows
        for epoch in (0, 1, None):
            assert list(ours.list_segments(partition, leader_epoch=epoch)) == []


def assert_same_answers_now(kafka: KafkaManager, ours: LocalMetadata, partition: TopicIdPartition) -> None:
    catch_up(kafka, ours, [partition])
    assert_same_answers(kafka, ours, log_of(ours, [partition]))


def compare_after_history(sides: Sides, *, seed: int, epochs_fit: bool) -> None:
    random = Random(seed)
    partitions = some_partitions(random, count=USER_PARTITIONS)
    deleted, kept = partitions[:2], partitions[2:]
    with sides.kafka() as kafka, sides.ours() as ours:
        make_history(kafka, ours, partitions, random=random, epochs_fit=epochs_fit)
        delete(deleted[0], kafka.write)
        delete(deleted[1], lambda events: write_ours(ours, events, random=None))
        catch_up(kafka, ours, partitions)
        log = log_of(ours, partitions)
        assert_same_answers(kafka, ours, {partition: log[partition] for partition in kept})
        assert_nothing_is_known(kafka, ours, deleted)
    with sides.kafka() as kafka, sides.ours() as ours:  # both read the whole topic again
        kafka.assign(leaders=kept[:2], followers=kept[2:])
        assert_same_answers(kafka, ours, {partition: log[partition] for partition in kept})


def make_history(
    kafka: KafkaManager,
    ours: LocalMetadata,
    partitions: Sequence[TopicIdPartition],
    *,
    random: Random,
    epochs_fit: bool,
) -> None:
    """Both write at the same time. Kafka's manager is told of partitions one by one, and of some again."""
    history = RandomHistory(random, epochs_fit=epochs_fit)
    waiting = list(partitions)
    assigned = [waiting.pop()]
    kafka.assign(leaders=assigned)
    with ThreadPoolExecutor(1) as other:
        for number in range(ROUNDS):
            if waiting and number % 4 == 3:
                assigned.append(waiting.pop())
                kafka.assign(leaders=assigned[-1:] if number % 8 == 3 else (), followers=assigned[-1:])
            if number % 10 == 9:
                leaves = assigned.pop(0)
                kafka.write([history.event([leaves])])  # Kafka only forgets what it has heard of
                kafka.stop([leaves])
                waiting.insert(0, leaves)
            theirs = [history.event(assigned) for _ in range(random.randint(1, 18))]
            writing = other.submit(kafka.write, theirs)
            write_ours(ours, [history.event(partitions) for _ in range(random.randint(1, 18))], random=random)
            writing.result()
    kafka.assign(followers=waiting)


def has_leaders(log: KafkaEventLog) -> bool:
    """Whether the topic, which Kafka's manager may just have made, can be used already."""
    try:
        log.end_offsets(range(METADATA_PARTITIONS))
    except MetadataLogUnavailable:
        return False
    return True


def write_ours(ours: LocalMetadata, events: Iterable[MetadataEvent], *, random: Random | None) -> None:
    """Through the manager, which refuses some, or with `random` also straight to the log."""
    log = ours.manager.replica.log
    for event in events:
        if random is not None and random.random() < 0.5:
            home = metadata_partition(event.partition, partition_count=METADATA_PARTITIONS)
            log.publish(home, encode_event(event)).result(WAIT_S)
            continue
        with suppress(InvalidTransition, SegmentConflict, SegmentNotFound):
            if isinstance(event, RemoteLogSegmentMetadata):
                ours.add_segment(event)
            elif isinstance(event, RemotePartitionDeleteMetadata):
                ours.put_partition_delete(event)
            else:
                ours.update_segment(event)


def delete(partition: TopicIdPartition, write: Callable[[Sequence[MetadataEvent]], None]) -> None:
    write([RemotePartitionDeleteMetadata(partition=partition, state=state) for state in PartitionDeleteState])


def catch_up(kafka: KafkaManager, ours: LocalMetadata, partitions: Sequence[TopicIdPartition]) -> None:
    """Returns when Kafka's manager has read all that there is; ours will have before its next answer."""
    homes = {metadata_partition(partition, partition_count=METADATA_PARTITIONS) for partition in partitions}
    random = Random(0)
    marks = {home: random_partition(random) for home in homes}
    for home in homes:
        while metadata_partition(marks[home], partition_count=METADATA_PARTITIONS) != home:
            marks[home] = random_partition(random)
    kafka.write([segment(mark, 0, end_offset=0) for mark in marks.values()])
    log = ours.manager.replica.log
    ends = log.end_offsets(homes)
    everything = ConsistencyToken(log.log_id, {home: end - 1 for home, end in ends.items()})
    ours.token = everything if ours.token is None else ours.token.merged(everything)


def log_of(ours: LocalMetadata, partitions: Sequence[TopicIdPartition]) -> Log:
    """What the topic holds about each of these."""
    log = ours.manager.replica.log
    ends = log.end_offsets(range(METADATA_PARTITIONS))
    missing = sum(ends.values())
    events: dict[TopicIdPartition, list[MetadataEvent]] = {partition: [] for partition in partitions}
    with closing(log.subscribe(dict.fromkeys(ends, 0))) as stream:
        while missing > 0:
            for record in stream.poll(timeout_s=WAIT_S):
                missing -= 1
                assert record.value is not None
                event = decode_event(record.value)
                if event.partition in events:
                    events[event.partition].append(event)
    return events


def assert_same_answers(kafka: KafkaManager, ours: LocalMetadata, log: Log) -> None:
    models = {partition: KafkaPartitionModel.after(events) for partition, events in log.items()}
    questions = [question_of(partition, events, models[partition]) for partition, events in log.items()]
    terms = CallTerms(token=ours.token, timeout_s=WAIT_S)
    for question, theirs in zip(questions, kafka.answers([each.json() for each in questions]), strict=True):
        our = ours.loop.run(our_answer(ours.manager, question, terms))
        assert theirs is not None
        history = "\n".join(map(str, log[question.partition]))
        expected = as_kafka_lists(our, models[question.partition])
        assert in_our_order(theirs) == expected, f"after this history of {question.partition}:\n{history}"


def assert_nothing_is_known(kafka: KafkaManager, ours: LocalMetadata, partitions: Sequence[TopicIdPartition]) -> None:
    questions = [question_of(partition, [], KafkaPartitionModel()) for partition in partitions]
    assert kafka.answers([question.json() for question in questions]) == [None] * len(partitions)
    for partition in partitions:
        assert list(ours.list_segments(partition)) == []
        assert ours.highest_offset_for_epoch(partition, leader_epoch=0) is None


def some_partitions(random: Random, *, count: int) -> list[TopicIdPartition]:
    return [
        TopicIdPartition(topic_id=TopicId(random.randbytes(16)), partition=random.randrange(9), topic=f"topic-{number}")
        for number in range(count)
    ]


def segment(partition: TopicIdPartition, number: int, *, end_offset: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=SegmentId(number.to_bytes(16)),
        start_offset=0,
        end_offset=end_offset,
        segment_leader_epochs=LeaderEpochs.of({0: 0}),
        segment_size_bytes=1000 + number,
    )
