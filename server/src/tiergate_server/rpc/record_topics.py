"""Which partition a request for records means: by the topic's name, its id, or both."""

from __future__ import annotations

from tiergate.v1 import records_pb2 as pb
from tiergate_client.conversions import id_from_proto, inside
from tiergate_client.errors import InvalidField, TopicNotFound
from tiergate_client.ids import TopicId
from tiergate_client.interfaces import RemoteLogMetadata
from tiergate_client.values import TopicIdPartition


def named_partition(metadata: RemoteLogMetadata, message: pb.RecordPartition) -> TopicIdPartition:
    """With name and id. Raises TopicNotFound, InvalidField also when the name alone does not say which topic."""
    topic_id = _checked(message)
    if topic_id is None:
        topic_id = _only_id(metadata, message.topic)
    elif not message.topic:
        return TopicIdPartition(topic_id, message.partition, _name_of(metadata, topic_id))
    else:
        _require_topic(metadata, message.topic, topic_id)
    return TopicIdPartition(topic_id, message.partition, message.topic)


def _checked(message: pb.RecordPartition) -> TopicId | None:
    with inside("partition"):
        if not message.topic and not message.topic_id:
            raise InvalidField.of("topic", "name the topic, or its id in topic_id")
        topic_id = id_from_proto(TopicId, message.topic_id, "topic_id") if message.topic_id else None
        TopicIdPartition(topic_id or TopicId.random(), message.partition, message.topic or "any")
        return topic_id


def _ids_of(metadata: RemoteLogMetadata, topic: str) -> list[TopicId]:
    ids = sorted({summary.partition.topic_id for summary in metadata.list_partitions(topic=topic)}, key=str)
    if not ids:  # the log did speak of it, until its last partition was deleted
        raise TopicNotFound(f"every partition of the topic {topic} was deleted", details={"topic": topic})
    return ids


def _only_id(metadata: RemoteLogMetadata, topic: str) -> TopicId:
    ids = _ids_of(metadata, topic)
    if len(ids) != 1:
        names = [str(one) for one in ids]
        raise InvalidField(
            f"topic_id: {topic} is the name of {len(ids)} topics, {' and '.join(names)}: say which one by its id",
            details={"field": "topic_id", "topic_ids": ",".join(names)},
        )
    return ids[0]


def _require_topic(metadata: RemoteLogMetadata, topic: str, topic_id: TopicId) -> None:
    """The id alone says what is read: who gives it another topic's name would wonder about an empty answer."""
    ids = _ids_of(metadata, topic)
    if topic_id not in ids:
        raise TopicNotFound(
            f"no topic {topic} has the id {topic_id}; known: {', '.join(map(str, ids))}", details={"topic": topic}
        )


def _name_of(metadata: RemoteLogMetadata, topic_id: TopicId) -> str:
    for summary in metadata.list_partitions():
        if summary.partition.topic_id == topic_id:
            return summary.partition.topic
    raise TopicNotFound(f"no topic has the id {topic_id}", details={"topic_id": str(topic_id)})
