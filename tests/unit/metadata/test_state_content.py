"""Content that no state can have is refused, instead of becoming a state that fails later."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace

import pytest
from unit.metadata.snapshot_scenarios import DELETED, PARTITIONS, small_state

from support.metadata_answers import answers
from tiergate_client.values import PartitionDeleteState, RemotePartitionDeleteMetadata
from tiergate_server.metadata.state import MetadataState
from tiergate_server.metadata.state_content import Contradiction, EpochContent, PartitionContent, StateContent

FIRST_ID, SECOND_ID, LEAVING_ID = (number.to_bytes(16) for number in (1, 2, 3))


def small_content(change: Callable[[PartitionContent], PartitionContent] | None = None) -> StateContent:
    """What the small state holds, its first partition changed."""
    content = small_state().content()
    first, *others = content.partitions
    return replace(content, partitions=[first if change is None else change(first), *others])


def with_epoch(number: int, epoch: EpochContent) -> Callable[[PartitionContent], PartitionContent]:
    return lambda content: replace(content, epochs={**content.epochs, number: epoch})


def test_content_of_a_state_makes_one_that_answers_alike() -> None:
    assert answers(MetadataState.restored(small_content()), PARTITIONS) == answers(small_state(), PARTITIONS)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda content: replace(content, segment_ids=[FIRST_ID, FIRST_ID, *content.segment_ids[2:]]),
            "there twice",
        ),
        (lambda content: replace(content, epochs={0: content.epochs[0]}), "is missing"),
        (lambda content: replace(content, packed_segments=[b"short", *content.packed_segments[1:]]), "5 bytes"),
        (with_epoch(0, EpochContent(9, array("q", [1]), [SECOND_ID])), "not at this offset"),
        (with_epoch(0, EpochContent(9, array("q", [0]), [b"?" * 16])), "not finished"),
        (with_epoch(2, EpochContent(9, array("q", [8]), [LEAVING_ID])), "not finished"),
        (with_epoch(0, EpochContent(9, array("q", [0, 0]), [FIRST_ID, SECOND_ID])), "ascend"),
        (lambda content: replace(content, former_epochs={FIRST_ID: [2]}), "twice in a leader epoch"),
        (lambda content: replace(content, former_epochs={FIRST_ID: [1, 1]}), "twice in a leader epoch"),
        (lambda content: replace(content, former_epochs={FIRST_ID: [7]}), "7 of .* is missing"),
        (with_epoch(0, EpochContent(None, array("q", [0]), [SECOND_ID])), "highest offset"),
    ],
)
def test_partition_that_contradicts_itself_is_refused(
    change: Callable[[PartitionContent], PartitionContent], complaint: str
) -> None:
    with pytest.raises(Contradiction, match=complaint):
        MetadataState.restored(small_content(change))


def test_same_partition_twice_is_refused() -> None:
    first, *_ = small_content().partitions
    with pytest.raises(Contradiction, match="there twice"):
        MetadataState.restored(replace(small_content(), partitions=[first, first]))


def test_partition_of_a_topic_without_name_is_refused() -> None:
    with pytest.raises(Contradiction, match="has no name"):
        MetadataState.restored(replace(small_content(), topic_names={}))


def test_deletion_of_a_partition_that_is_not_there_is_refused() -> None:
    delete = RemotePartitionDeleteMetadata(DELETED, PartitionDeleteState.DELETE_PARTITION_MARKED)
    with pytest.raises(Contradiction, match="being deleted"):
        MetadataState.restored(replace(small_content(), deletes=[delete]))
