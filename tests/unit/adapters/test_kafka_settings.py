"""Which settings reach librdkafka: the user's over the defaults, those that the log depends on over the user's."""

from __future__ import annotations

import pytest

from tiergate_server.adapters.kafka_settings import KafkaLogSettings


@pytest.mark.parametrize(
    ("role", "name", "value"),
    [
        ("producer", "acks", "all"),
        ("producer", "enable.idempotence", "true"),
        ("producer", "max.in.flight.requests.per.connection", "1"),
        ("producer", "allow.auto.create.topics", "false"),
        ("consumer", "auto.offset.reset", "error"),
        ("consumer", "enable.auto.commit", "false"),
        ("consumer", "allow.auto.create.topics", "false"),
        ("admin", "allow.auto.create.topics", "false"),
        ("admin", "bootstrap.servers", "kafka:9092"),
    ],
)
def test_what_the_log_depends_on_cannot_be_overridden(role: str, name: str, value: str) -> None:
    settings = KafkaLogSettings("kafka:9092", client={name: "something else"})
    assert getattr(settings, role)()[name] == value


@pytest.mark.parametrize(
    ("alias", "name", "value"),
    [
        ("request.required.acks", "acks", "all"),
        ("max.in.flight", "max.in.flight.requests.per.connection", "1"),
        ("metadata.broker.list", "bootstrap.servers", "kafka:9092"),
    ],
)
def test_what_the_log_depends_on_cannot_be_overridden_under_another_name(alias: str, name: str, value: str) -> None:
    producer = KafkaLogSettings("kafka:9092", client={alias: "7"}).producer()
    assert alias not in producer
    assert producer[name] == value


@pytest.mark.parametrize("name", ["message.timeout.ms", "delivery.timeout.ms"])
def test_the_delivery_timeout_is_the_users(name: str) -> None:
    assert KafkaLogSettings("kafka:9092").delivery_timeout_s == 30
    assert KafkaLogSettings("kafka:9092", client={name: "1500"}).delivery_timeout_s == 1.5


def test_a_setting_of_the_user_reaches_every_client() -> None:
    settings = KafkaLogSettings("kafka:9092", client={"sasl.username": "reader", "socket.nagle.disable": "false"})
    for client in (settings.admin(), settings.producer(), settings.consumer()):
        assert client["sasl.username"] == "reader"
        assert client["socket.nagle.disable"] == "false"
