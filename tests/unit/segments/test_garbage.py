"""The rules of what is garbage, and the order in which it goes."""

from __future__ import annotations

import pytest

from support.segments import make_data, make_metadata
from tiergate_server.segments.garbage import (
    UNREADABLE,
    GarbageKind,
    SlotContent,
    garbage_of,
    may_hold_garbage,
    needs_manifest,
)
from tiergate_server.segments.manifest import SegmentManifestV1, TombstoneV1
from tiergate_server.segments.object_store import ObjectInfo
from tiergate_server.segments.segment_groups import SegmentGroup, grouped

METADATA = make_metadata()
MANIFEST = SegmentManifestV1(make_data(log_bytes=10).manifest(METADATA))
NAMED, RIVAL = MANIFEST.content.upload_digest, "f" * 32
ROOT = f"{METADATA.partition.topic_id}_0/{METADATA.segment_id}"
AGE = 100


def group(**modified_at_ms: int) -> SegmentGroup:
    """Objects by name, with their times: manifest, named_log, named_upload, rival_log, rival_upload."""
    names = {
        "manifest": "manifest.json",
        "named_log": f"{NAMED}/log",
        "named_upload": f"{NAMED}/upload.json",
        "rival_log": f"{RIVAL}/log",
        "rival_upload": f"{RIVAL}/upload.json",
    }
    listing = [ObjectInfo(f"{ROOT}/{names[name]}", 1, time) for name, time in modified_at_ms.items()]
    (only,) = grouped(sorted(listing, key=lambda stored: stored.key))
    assert isinstance(only, SegmentGroup)
    return only


def removed(found: SegmentGroup, slot: SlotContent, *, is_known: bool) -> list[tuple[GarbageKind, list[str]]]:
    judged = list(garbage_of(found, slot, is_known=is_known, before_ms=AGE))
    # Whatever goes was worth the closer look.
    assert not judged or may_hold_garbage(found, is_known=is_known, before_ms=AGE)
    return [
        (garbage.kind, sorted(stored.key.removeprefix(f"{ROOT}/") for stored in garbage.objects)) for garbage in judged
    ]


def test_manifest_of_an_unknown_segment_goes_first() -> None:
    assert removed(group(manifest=1, named_log=2, rival_log=3), MANIFEST, is_known=False) == [
        (GarbageKind.SEGMENT, ["manifest.json"]),
        (GarbageKind.SEGMENT, sorted([f"{NAMED}/log", f"{RIVAL}/log"])),
    ]


def test_tombstone_of_an_unknown_segment_goes_last() -> None:
    assert removed(group(manifest=1, named_log=2), TombstoneV1(METADATA.segment_id, 1), is_known=False) == [
        (GarbageKind.SEGMENT, [f"{NAMED}/log"]),
        (GarbageKind.TOMBSTONE, ["manifest.json"]),
    ]


@pytest.mark.parametrize("slot", [MANIFEST, TombstoneV1(METADATA.segment_id, 1), None])
def test_unknown_segment_stays_while_anything_of_it_is_young(slot: SlotContent) -> None:
    young = group(manifest=1, named_log=AGE) if slot is not None else group(named_log=1, named_upload=AGE)
    assert removed(young, slot, is_known=False) == []


def test_unknown_segment_stays_for_the_safety_age_after_its_deletion() -> None:
    assert removed(group(manifest=1), TombstoneV1(METADATA.segment_id, AGE), is_known=False) == []
    assert removed(group(manifest=1), TombstoneV1(METADATA.segment_id, AGE - 1), is_known=False) != []


def test_unknown_segment_whose_manifest_cannot_be_read_stays() -> None:
    assert removed(group(manifest=1, named_log=1), UNREADABLE, is_known=False) == []


def test_upload_that_the_manifest_of_a_known_segment_does_not_name_goes_when_it_is_old() -> None:
    whole = group(manifest=AGE, named_log=1, rival_log=2, rival_upload=3)
    assert needs_manifest(whole, is_known=True)
    assert removed(whole, MANIFEST, is_known=True) == [(GarbageKind.UPLOAD, [f"{RIVAL}/log", f"{RIVAL}/upload.json"])]
    assert removed(group(manifest=1, named_log=1, rival_log=2, rival_upload=AGE), MANIFEST, is_known=True) == []


def test_known_segment_without_a_manifest_loses_old_descriptors_only() -> None:
    unfinished = group(named_log=1, named_upload=1, rival_log=1, rival_upload=AGE)
    assert not needs_manifest(unfinished, is_known=True)
    assert removed(unfinished, None, is_known=True) == [(GarbageKind.DESCRIPTOR, [f"{NAMED}/upload.json"])]


@pytest.mark.parametrize("slot", [TombstoneV1(METADATA.segment_id, 1), UNREADABLE])
def test_known_segment_whose_manifest_names_nothing_keeps_all_data(slot: SlotContent) -> None:
    assert removed(group(manifest=1, named_log=1, rival_log=1), slot, is_known=True) == []


def test_manifest_of_a_segment_in_use_is_not_read() -> None:
    in_use = group(manifest=1, named_log=1)
    assert not may_hold_garbage(in_use, is_known=True, before_ms=AGE)
    assert not needs_manifest(in_use, is_known=True)
