"""The event log on a real Kafka: its topic, who may use it, and what happens when the topic goes away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka.admin import AclOperation

from support.event_streams import poll_until_it_raises, take
from support.kafka_broker import PASSWORD, STRANGER, USER, KafkaBroker, running_broker
from support.kafka_topics import KafkaTopics
from support.waiting import wait_until
from tiergate_client.errors import CommitStateUnknown, MetadataLogUnavailable, ReadOnly
from tiergate_server.adapters.kafka_log import KafkaEventLog
from tiergate_server.adapters.kafka_settings import KafkaLogSettings
from tiergate_server.metadata.event_log import EventLogRefused, LogRecord, PositionLost, StreamClosed

WAIT_S = 30.0

OpenLog = Callable[..., KafkaEventLog]


@pytest.fixture
def topics(kafka: KafkaBroker) -> KafkaTopics:
    return KafkaTopics(kafka)


@pytest.fixture
def name(topics: KafkaTopics) -> str:
    return topics.unused_name()


@pytest.fixture
def open_log(kafka: KafkaBroker, name: str) -> Iterator[OpenLog]:
    """Opens logs on the session's broker and the test's topic, unless told otherwise, and closes them."""
    logs: list[KafkaEventLog] = []

    def open_(
        *,
        bootstrap: str = kafka.bootstrap,
        topic: str = name,
        partitions: int = 3,
        replication: int = 1,
        client: Mapping[str, str] | None = None,
        follow: bool = False,
        timeout_s: float = 15.0,
    ) -> KafkaEventLog:
        settings = KafkaLogSettings(
            bootstrap, topic, partitions=partitions, replication=replication, client=client or {}, follow=follow
        )
        logs.append(KafkaEventLog(settings, timeout_s=timeout_s, verify_every_s=0.3))
        return logs[-1]

    yield open_
    for log in logs:
        log.close()


@pytest.fixture(scope="module")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("secure-kafka"), secure=True) as broker:
        yield broker


def sasl(user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def test_a_new_topic_has_the_configured_shape_and_is_kept_for_ever(
    open_log: OpenLog, topics: KafkaTopics, name: str
) -> None:
    log = open_log(partitions=7)
    assert log.partition_count == 7
    config = topics.config(name)
    kept = {key: config[key] for key in ("cleanup.policy", "retention.ms", "remote.storage.enable")}
    assert kept == {"cleanup.policy": "delete", "retention.ms": "-1", "remote.storage.enable": "false"}
    assert config["min.insync.replicas"] == "1"


def test_an_existing_topic_wins_with_its_partition_count_and_says_so(
    open_log: OpenLog, topics: KafkaTopics, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create(name, partitions=2)
    with caplog.at_level(logging.WARNING):
        log = open_log(partitions=5)
    assert log.partition_count == 2
    assert f"The topic {name} HAS 2 PARTITIONS, which wins over the 5 configured" in caplog.text


def test_the_log_id_is_the_topic_id_for_every_replica(open_log: OpenLog) -> None:
    one, other = open_log(), open_log(partitions=9)
    assert one.log_id == other.log_id
    assert other.partition_count == 3


def test_replication_that_the_cluster_cannot_give_is_unavailable_with_the_reason(open_log: OpenLog) -> None:
    with pytest.raises(MetadataLogUnavailable, match=r"only 1 broker\(s\) are registered"):
        open_log(replication=3)


def test_follow_mode_creates_nothing_and_says_who_has_to(open_log: OpenLog, topics: KafkaTopics, name: str) -> None:
    with pytest.raises(MetadataLogUnavailable, match=f"has no topic {name}. It is only followed"):
        open_log(follow=True)
    assert name not in topics.names()


def test_follow_mode_reads_but_never_writes(open_log: OpenLog, topics: KafkaTopics, name: str) -> None:
    topics.create(name, partitions=3)
    topics.write(name, 1, b"theirs")
    log = open_log(follow=True)
    with pytest.raises(ReadOnly, match="only followed"):
        log.publish(0, b"ours").result(WAIT_S)
    assert [(record.partition, record.value) for record in take(log.subscribe({0: 0, 1: 0}), 1)] == [(1, b"theirs")]
    assert log.end_offsets([0, 1]) == {0: 0, 1: 1}


def test_no_consumer_group_appears_on_the_broker(open_log: OpenLog, topics: KafkaTopics) -> None:
    log = open_log()
    log.publish(0, b"x").result(WAIT_S)
    stream = log.subscribe({0: 0, 1: 0})
    take(stream, 1)
    stream.remove([0])
    stream.poll(timeout_s=0.2)
    stream.close()
    assert topics.consumer_groups() == set()


def test_records_carry_the_leader_epoch_and_a_null_value_is_empty(
    open_log: OpenLog, topics: KafkaTopics, name: str
) -> None:
    log = open_log()
    topics.write(name, 0, b"a", None, b"")
    assert take(log.subscribe({0: 0}), 3) == [
        LogRecord(0, 0, b"a", 0),
        LogRecord(0, 1, b"", 0),
        LogRecord(0, 2, b"", 0),
    ]


def test_records_are_written_as_kafkas_own_manager_writes_them(
    open_log: OpenLog, topics: KafkaTopics, name: str
) -> None:
    open_log().publish(2, b"event").result(WAIT_S)
    assert list(topics.read(name, 2, count=1)) == [(0, b"event")]


def test_an_unreachable_cluster_is_unavailable_in_time(open_log: OpenLog) -> None:
    began = time.monotonic()
    with pytest.raises(MetadataLogUnavailable, match=r"127\.0\.0\.1:1 cannot be reached .*Connection refused"):
        open_log(bootstrap="127.0.0.1:1", timeout_s=1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("client", "complaint"),
    [
        ({"no.such.setting": "1"}, 'No such configuration property: "no.such.setting"'),
        ({"security.protocol": "carrier pigeon"}, 'Invalid value "carrier pigeon"'),
    ],
)
def test_a_client_setting_that_is_no_good_is_refused(
    open_log: OpenLog, client: Mapping[str, str], complaint: str
) -> None:
    with pytest.raises(EventLogRefused, match=complaint):
        open_log(client=client)


def test_a_client_setting_that_is_fixed_is_ignored_and_named(
    open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(client={"acks": "0", "auto.offset.reset": "latest", "linger.ms": "3"})
    assert log.publish(0, b"x").result(WAIT_S) == 0
    assert take(log.subscribe({0: 0}), 1)[0].value == b"x"
    assert "fixed and ignored: acks, auto.offset.reset" in caplog.text


def test_sasl_plain_works_for_every_client(open_log: OpenLog, secure_broker: KafkaBroker) -> None:
    log = open_log(bootstrap=secure_broker.sasl_bootstrap, client=sasl())
    assert log.publish(0, b"x").result(WAIT_S) == 0
    assert take(log.subscribe({0: 0}), 1)[0].value == b"x"
    assert log.end_offsets([0]) == {0: 1}


def test_tls_works_for_every_client(open_log: OpenLog, secure_broker: KafkaBroker) -> None:
    assert secure_broker.certificate is not None
    client = {"security.protocol": "SSL", "ssl.ca.location": str(secure_broker.certificate.certificate)}
    log = open_log(bootstrap=secure_broker.tls_bootstrap, client=client)
    assert log.publish(0, b"x").result(WAIT_S) == 0
    assert take(log.subscribe({0: 0}), 1)[0].value == b"x"


def test_a_wrong_password_is_told_at_once(open_log: OpenLog, secure_broker: KafkaBroker) -> None:
    began = time.monotonic()
    with pytest.raises(MetadataLogUnavailable, match=r"does not let us in .*Invalid username or password"):
        open_log(bootstrap=secure_broker.sasl_bootstrap, client=sasl(password="wrong"))  # noqa: S106
    assert time.monotonic() - began < 5


def test_an_unknown_certificate_is_told_at_once(open_log: OpenLog, secure_broker: KafkaBroker) -> None:
    with pytest.raises(MetadataLogUnavailable, match=r"does not let us in .*certificate verify failed"):
        open_log(bootstrap=secure_broker.tls_bootstrap, client={"security.protocol": "SSL"})


def test_missing_rights_are_named_and_a_reader_needs_only_to_read(
    open_log: OpenLog, secure_broker: KafkaBroker, name: str
) -> None:
    topics = KafkaTopics(secure_broker)
    topics.create(name, partitions=1)
    topics.write(name, 0, b"x")
    stranger = sasl(user=STRANGER)
    with pytest.raises(MetadataLogUnavailable, match=f"does not allow this on the topic {name}"):
        open_log(bootstrap=secure_broker.sasl_bootstrap, client=stranger)
    topics.allow(STRANGER, name, AclOperation.READ, AclOperation.DESCRIBE)
    with pytest.raises(MetadataLogUnavailable, match=f"does not allow WRITE on the topic {name}"):
        open_log(bootstrap=secure_broker.sasl_bootstrap, client=stranger)
    log = open_log(bootstrap=secure_broker.sasl_bootstrap, client=stranger, follow=True)
    assert take(log.subscribe({0: 0}), 1)[0].value == b"x"


def test_a_topic_made_anew_ends_the_log_with_the_reason(open_log: OpenLog, topics: KafkaTopics, name: str) -> None:
    log = open_log()
    stream = log.subscribe({0: 0, 1: 0})
    topics.delete(name)
    wait_until(lambda: name not in topics.names(), timeout_s=WAIT_S)
    topics.create(name, partitions=3)
    ended = poll_until_it_raises(stream)
    assert isinstance(ended, StreamClosed)
    assert f"{name} of Kafka at" in str(ended)
    with pytest.raises(MetadataLogUnavailable, match=r"was (made anew|deleted)"):
        log.publish(0, b"x").result(WAIT_S)
    with pytest.raises(MetadataLogUnavailable, match=r"was (made anew|deleted)"):
        log.end_offsets([0])
    reopened = open_log()
    assert reopened.log_id != log.log_id
    assert reopened.end_offsets([0, 1, 2]) == {0: 0, 1: 0, 2: 0}


def test_a_deleted_topic_ends_the_log_and_does_not_come_back_by_a_publish(
    open_log: OpenLog, topics: KafkaTopics, name: str
) -> None:
    log = open_log(client={"message.timeout.ms": "3000"})
    topics.delete(name)
    # Kafka confirms before its brokers know: until they do, they rightly acknowledge what is published.
    wait_until(lambda: name not in topics.names(), timeout_s=WAIT_S)
    published = log.publish(0, b"x")
    ended = poll_until_it_raises(log.subscribe({0: 0}))
    assert isinstance(ended, StreamClosed)
    assert "was deleted" in str(ended)
    assert isinstance(published.exception(WAIT_S), MetadataLogUnavailable | CommitStateUnknown)
    assert name not in topics.names()


def test_a_changed_partition_count_ends_the_log_with_the_reason(
    open_log: OpenLog, topics: KafkaTopics, name: str
) -> None:
    log = open_log()
    topics.add_partitions(name, total=4)
    ended = poll_until_it_raises(log.subscribe({0: 0}))
    assert "has 4 partitions now, it had 3" in str(ended)
    with pytest.raises(MetadataLogUnavailable, match="has 4 partitions now"):
        log.publish(0, b"x").result(WAIT_S)


def test_records_deleted_past_the_position_are_told_once_and_the_rest_goes_on(
    open_log: OpenLog, topics: KafkaTopics, name: str
) -> None:
    log = open_log()
    for number in range(6):
        log.publish(0, b"%d" % number).result(WAIT_S)
    log.publish(1, b"other").result(WAIT_S)
    topics.delete_records(name, partition=0, before=4)
    assert log.begin_offsets([0, 1]) == {0: 4, 1: 0}
    stream = log.subscribe({0: 2})
    lost = poll_until_it_raises(stream)
    assert isinstance(lost, PositionLost)
    assert (lost.partition, lost.offset) == (0, 2)
    assert stream.partitions() == frozenset()
    stream.add({0: 4, 1: 0})
    assert sorted(record.value for record in take(stream, 3)) == [b"4", b"5", b"other"]
