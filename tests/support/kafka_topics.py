"""What tests do to the topics of a broker behind the back of the event log."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    PartitionMetadata,
    ResourcePatternType,
    ResourceType,
)

from support.kafka_broker import KafkaBroker

_TIMEOUT_S = 20.0


class KafkaTopics:
    def __init__(self, broker: KafkaBroker) -> None:
        self._bootstrap = broker.bootstrap
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "2"})

    @staticmethod
    def unused_name() -> str:
        return f"metadata-{secrets.token_hex(6)}"

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: list[list[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """`replicas` names the nodes of each partition, the preferred leader first."""
        if replicas is None:
            topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        else:
            topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=dict(config or {}))
        self._admin.create_topics([topic])[name].result(_TIMEOUT_S)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(_TIMEOUT_S)

    def add_partitions(self, name: str, *, total: int) -> None:
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(_TIMEOUT_S)

    def names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=_TIMEOUT_S).topics)

    def config(self, name: str) -> Mapping[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        entries = self._admin.describe_configs([resource])[resource].result(_TIMEOUT_S)
        return {key: entry.value for key, entry in entries.items()}

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Sets these and leaves the others."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)

    def leaders(self, name: str) -> dict[int, int]:
        """Partition -> node."""
        return {number: partition.leader for number, partition in self._partitions(name).items()}

    def in_sync(self, name: str) -> int:
        """The smallest number of replicas in sync over the partitions."""
        return min(len(partition.isrs) for partition in self._partitions(name).values())

    def elect_preferred_leaders(self, name: str) -> None:
        places = [TopicPartition(name, partition) for partition in self.leaders(name)]
        self._admin.elect_leaders(ElectionType.PREFERRED, places).result(_TIMEOUT_S)

    def delete_records(self, name: str, *, partition: int, before: int) -> None:
        place = TopicPartition(name, partition, before)
        next(iter(self._admin.delete_records([place]).values())).result(_TIMEOUT_S)

    def allow(self, user: str, name: str, *operations: AclOperation) -> None:
        for operation in operations:
            rule = AclBinding(
                ResourceType.TOPIC,
                name,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            self._admin.create_acls([rule])[rule].result(_TIMEOUT_S)

    def consumer_groups(self) -> set[str]:
        return {group.group_id for group in self._admin.list_consumer_groups().result(_TIMEOUT_S).valid}

    def write(self, name: str, partition: int, *values: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": "2"})
        for value in values:
            producer.produce(name, value, partition=partition)
        assert producer.flush(_TIMEOUT_S) == 0

    def read(self, name: str, partition: int, *, count: int) -> Iterator[tuple[int, bytes | None]]:
        """Offsets and values from the beginning on, as another program sees them."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(name, partition, 0)])
        try:
            for message in consumer.consume(count, timeout=_TIMEOUT_S):
                assert message.error() is None
                offset = message.offset()
                assert offset is not None
                yield offset, message.value()
        finally:
            consumer.close()

    def _partitions(self, name: str) -> dict[int, PartitionMetadata]:
        # Unlike the administrative requests, this one does not insist on a broker that may just have been killed.
        return self._admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
