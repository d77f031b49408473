"""Copies, deletes and aborts of one segment that meet in one store, each on a replica of its own, and how that may end.

In which order their operations come is decided by `interleavings`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import cast

from support.interleavings import Call, Moment, Turns, World
from support.segments import make_data, make_metadata, read_back
from support.watched_store import WatchedStore
from tiergate_client.errors import SegmentConflict, SegmentNotFound, StorageUnavailable, StoredDataCorrupt
from tiergate_client.ids import SegmentId, TopicId
from tiergate_client.segment_data import LogSegmentData
from tiergate_client.segment_files import BLOCK_BYTES
from tiergate_server.segments.keys import SegmentKeys
from tiergate_server.segments.object_store import ObjectStore
from tiergate_server.segments.segment_storage import SegmentStorage

METADATA = make_metadata(topic_id=TopicId(b"t" * 16), segment_id=SegmentId(b"s" * 16))
KEYS = SegmentKeys.of(METADATA)

Act = Callable[[SegmentStorage], str]


def copy(storage: SegmentStorage, *, data: LogSegmentData) -> str:
    try:
        try:
            storage.copy_segment(METADATA, data)
        except StorageUnavailable:  # somebody ended its upload: a repeat says why
            storage.copy_segment(METADATA, data)
    except SegmentConflict:
        return "conflict"
    return "copied"


def delete(storage: SegmentStorage) -> str:
    storage.delete_segment(METADATA)
    return "deleted"


def abort(storage: SegmentStorage) -> str:
    return "complete" if storage.abort_upload(METADATA) else "aborted"


# Large: in directories these go as partial uploads.
SMALL, OTHER_SMALL, LARGE, OTHER_LARGE = CONTENTS = tuple(
    make_data(log_bytes=log_bytes, index_bytes=8, with_producer_snapshot=False, seed=seed)
    for log_bytes in (50, BLOCK_BYTES + 1)
    for seed in (0, 1)
)
COPY, COPY_OTHER, COPY_LARGE, COPY_OTHER_LARGE = (partial(copy, data=data) for data in CONTENTS)
# Get the manifest, get the descriptor, begin a partial upload: before the next step nobody sees a copy.
_STEPS_BEFORE_A_COPY_IS_SEEN = 3

SAME = {("copied", "copied", "whole")}
OTHER = {("copied", "conflict", "whole"), ("conflict", "copied", "whole")}
DELETED = {("copied", "deleted", "absent"), ("conflict", "deleted", "absent"), ("copied", "deleted", "whole")}
ABORTED = {("copied", "complete", "whole"), ("conflict", "aborted", "absent"), ("copied", "aborted", "whole")}
DELETED_TWICE = {(copied, "deleted", "deleted", state) for copied, _, state in DELETED}
DELETED_AND_ABORTED = {
    *((copied, "deleted", "aborted", state) for copied, _, state in DELETED),
    *(("copied", "deleted", "complete", state) for state in ("absent", "whole")),  # deleted later, or before it began
}
SAME_DELETED = {
    ("copied", "copied", "deleted", "whole"),
    *((one, other, "deleted", "absent") for one in ("copied", "conflict") for other in ("copied", "conflict")),
}


@dataclass(frozen=True, slots=True)
class Race:
    acts: tuple[Act, ...]
    ends: AbstractSet[tuple[str, ...]]
    """The answers, in the order of the acts, and the state at last."""


RACES = {
    "same_content": Race((COPY, COPY), SAME),
    "other_content": Race((COPY, COPY_OTHER), OTHER),
    "delete": Race((COPY, delete), DELETED),
    "abort": Race((COPY, abort), ABORTED),
}
LARGE_RACES = {
    "same_large_content": Race((COPY_LARGE, COPY_LARGE), SAME),
    "other_large_content": Race((COPY_LARGE, COPY_OTHER_LARGE), OTHER),
    "delete_of_large": Race((COPY_LARGE, delete), DELETED),
}
ABORT_OF_LARGE = {"abort_of_large": Race((COPY_LARGE, abort), ABORTED)}
RACES_OF_THREE = {
    "two_deletes": Race((COPY, delete, delete), DELETED_TWICE),
    "delete_and_abort": Race((COPY, delete, abort), DELETED_AND_ABORTED),
    "same_content_and_delete": Race((COPY, COPY, delete), SAME_DELETED),
}


class _Unseen:
    """Whether a data object was new: a copy must not care, so orders that differ in nothing else are one."""

    def __bool__(self) -> bool:
        raise AssertionError("a copy looks at whether its data object was new: then this has to be told apart here")

    def __repr__(self) -> str:
        return "unseen"


class _BlindStore(WatchedStore):
    def _committed(self, answer: bool) -> bool:  # noqa: ARG002
        return cast("bool", _Unseen())


@dataclass
class Replicas(World):
    """A place for objects, which `open_store` opens as another process would, and for each act a replica there."""

    race: Race
    open_store: Callable[[], AbstractContextManager[ObjectStore]]

    @property
    def calls(self) -> Sequence[Call]:
        return [partial(self._call, act) for act in self.race.acts]

    def fingerprint(self) -> Hashable:
        return None

    def state(self) -> str:
        with self.open_store() as store:
            try:
                back = read_back(SegmentStorage(store), METADATA)
            except SegmentNotFound:
                return "absent"
            except StoredDataCorrupt:
                return "half removed"
            return "whole" if back in CONTENTS else "other bytes"

    def require_good_end(self, moment: Moment, *, are_steps_of_the_store: bool = True) -> None:
        state = self.state()
        assert (*moment.answers, state) in self.race.ends, moment
        with self.open_store() as store:
            assert [*store.list_partials("")] == [], moment
            left = {stored.key for stored in store.list("")}
        if state == "absent":
            assert left <= {KEYS.manifest}, moment
        else:
            wholes = [data.manifest(METADATA).upload_digest for data in CONTENTS]
            files = [{KEYS.file(digest, file) for file in SMALL.sources} for digest in wholes]
            assert left - {KEYS.manifest} in files, moment
        if are_steps_of_the_store and state == "whole" and {"deleted", "aborted"} & set(moment.answers):
            self._require_unseen_copy(moment)

    def _require_unseen_copy(self, moment: Moment) -> None:
        """A segment is there behind a delete only if the delete looked before the copy could be seen."""
        looked, copied = (
            [number for number, answer in enumerate(moment.answers) if (answer == "copied") is is_copy]
            for is_copy in (False, True)
        )
        looked_at = [moment.schedule.index(number) for number in looked]
        steps = [at for at, number in enumerate(moment.schedule) if number == copied[-1]]
        assert max(looked_at) <= steps[_STEPS_BEFORE_A_COPY_IS_SEEN], moment

    def _call(self, act: Act, turns: Turns) -> str:
        with self.open_store() as store:
            return act(SegmentStorage(self.watched(store, turns), clock=lambda: 0))

    def watched(self, store: ObjectStore, turns: Turns) -> ObjectStore:
        """The store of one replica, which does its operations in turns."""
        return _BlindStore(store, lambda _: turns.wait(), after=turns.saw)
