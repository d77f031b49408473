"""Everything that can be asked about a partition, and our manager's answers in the form of the oracle's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from support.kafka_model import KafkaPartitionModel
from support.metadata_json import Json, event_json, partition_json
from tiergate_client.ids import SegmentId
from tiergate_client.values import RemoteLogSegmentMetadata, TopicIdPartition
from tiergate_server.metadata.event_codec import MetadataEvent
from tiergate_server.metadata.manager import MetadataManager
from tiergate_server.metadata.replica import CallTerms

_PAGE = 50


@dataclass(frozen=True, slots=True)
class EpochQuestion:
    epoch: int
    offsets: Sequence[int]
    transaction_offsets: Sequence[int]
    """Where to look for the next transaction index: nowhere that leads Kafka round in a circle."""


@dataclass(frozen=True, slots=True)
class PartitionQuestion:
    partition: TopicIdPartition
    epochs: Sequence[EpochQuestion]

    def json(self) -> Json:
        epochs = [
            {"epoch": each.epoch, "offsets": each.offsets, "transaction_offsets": each.transaction_offsets}
            for each in self.epochs
        ]
        return {"partition": partition_json(self.partition), "epochs": epochs}


def question_of(
    partition: TopicIdPartition, events: Iterable[MetadataEvent], model: KafkaPartitionModel
) -> PartitionQuestion:
    """Asks in every epoch at, just before and just behind the edges of every segment and epoch that was ever added."""
    offsets = {-1, 0}
    epochs = {0}
    for event in events:
        if isinstance(event, RemoteLogSegmentMetadata):
            edges = {event.start_offset, event.end_offset, *(start for _, start in event.segment_leader_epochs)}
            offsets |= {edge + distance for edge in edges for distance in (-1, 0, 1)}
            epochs |= {epoch for epoch, _ in event.segment_leader_epochs}
    return PartitionQuestion(
        partition,
        [
            EpochQuestion(
                epoch,
                sorted(offsets),
                [offset for offset in sorted(offsets) if not model.goes_round(epoch, offset)],
            )
            for epoch in (*sorted(epochs), max(epochs) + 1)
        ],
    )


async def our_answer(manager: MetadataManager, question: PartitionQuestion, terms: CallTerms) -> Json:
    partition = question.partition
    epochs: Json = {}
    for asked in question.epochs:
        epoch = asked.epoch
        highest, _ = await manager.highest_offset_for_epoch(partition, leader_epoch=epoch, terms=terms)
        size_bytes, _ = await manager.log_size(partition, leader_epoch=epoch, terms=terms)
        found = [
            await manager.find_segment(partition, leader_epoch=epoch, offset=offset, terms=terms)
            for offset in asked.offsets
        ]
        following = [
            await manager.find_next_segment_with_transaction_index(
                partition, leader_epoch=epoch, offset=offset, terms=terms
            )
            for offset in asked.transaction_offsets
        ]
        epochs[str(epoch)] = {
            "highest_offset": highest,
            "size_bytes": size_bytes,
            "segments": await _listed(manager, partition, epoch, terms),
            "found": [_or_none(None if segment is None else segment.value()) for segment, _ in found],
            "next_with_transaction_index": [_or_none(segment) for segment, _ in following],
        }
    return {"segments": await _listed(manager, partition, None, terms), "epochs": epochs}


def as_kafka_lists(answer: Json, model: KafkaPartitionModel) -> Json:
    """Our answer without what Kafka leaks, which must be there."""
    epochs: dict[str, Any] = {}
    for number, of_epoch in answer["epochs"].items():
        leaked = {segment_id.raw.hex() for epoch, segment_id in model.leaked if epoch == int(number)}
        lost = [segment for segment in of_epoch["segments"] if segment["segment_id"] in leaked]
        assert {segment["segment_id"] for segment in lost} == leaked, f"epoch {number} does not list what Kafka leaks"
        epochs[number] = {
            **of_epoch,
            "segments": [segment for segment in of_epoch["segments"] if segment not in lost],
            "size_bytes": of_epoch["size_bytes"] - sum(segment["segment_size_bytes"] for segment in lost),
        }
    return {**answer, "epochs": epochs}


def in_our_order(answer: Json) -> Json:
    """Kafka's answer with its listings in our order: Kafka promises none for the whole, and leaves ties open."""
    epochs = {
        number: {**of_epoch, "segments": _sorted(of_epoch["segments"])} for number, of_epoch in answer["epochs"].items()
    }
    return {"segments": _sorted(answer["segments"]), "epochs": epochs}


async def _listed(
    manager: MetadataManager, partition: TopicIdPartition, epoch: int | None, terms: CallTerms
) -> list[Json]:
    segments: list[RemoteLogSegmentMetadata] = []
    after: tuple[int, SegmentId] | None = None
    while True:
        page, _ = await manager.list_segments(partition, leader_epoch=epoch, after=after, limit=_PAGE, terms=terms)
        if not page:
            return [event_json(segment) for segment in segments]
        segments += page
        after = (page[-1].start_offset, page[-1].segment_id)


def _sorted(segments: list[Json]) -> list[Json]:
    return sorted(segments, key=lambda segment: (segment["start_offset"], segment["segment_id"]))


def _or_none(segment: RemoteLogSegmentMetadata | None) -> Json | None:
    return None if segment is None else event_json(segment)
