"""A listing becomes segments, as a model groups it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiergate_client.ids import SegmentId, TopicId
from tiergate_server.segments.object_store import ObjectInfo
from tiergate_server.segments.segment_groups import OtherObject, SegmentGroup, grouped

_ids = st.sampled_from([bytes([number]) * 16 for number in (0, 7, 251, 255)])
_digests = st.sampled_from(["0" * 32, "0123456789abcdef" * 2, "f" * 32])
_rests = st.just("manifest.json") | st.builds(
    "{}/{}".format, _digests, st.sampled_from(["log", "time_index", "upload.json", "strange"])
)
_segment_keys = st.builds(
    lambda topic, partition, segment, rest: f"{TopicId(topic)}_{partition}/{SegmentId(segment)}/{rest}",
    _ids,
    st.sampled_from([0, 1, 10, 2]),
    _ids,
    _rests,
)
_keys = _segment_keys | st.sampled_from(["tiergate.json", "snapshots/one", "A", "zzz/zzz"])


@given(st.dictionaries(_keys, st.integers(0, 9), max_size=60))
def test_groups_are_those_of_a_model(times: dict[str, int]) -> None:
    model: dict[str, dict[str, int]] = {}
    others = []
    for key, modified_at_ms in times.items():
        parts = key.split("/")
        if len(parts) > 2 and parts[-1] != "strange":
            model.setdefault("/".join(parts[:2]), {})[key] = modified_at_ms
        else:
            others.append(key)
    listing = (ObjectInfo(key, 1, times[key]) for key in sorted(times))
    found = list(grouped(listing))
    groups = [one for one in found if isinstance(one, SegmentGroup)]
    assert sorted(one.info.key for one in found if isinstance(one, OtherObject)) == sorted(others)
    assert {group.keys.root: _content(group) for group in groups} == model
    assert len(groups) == len(model)
    for group in groups:
        of_model = model[group.keys.root]
        assert group.newest_ms == max(of_model.values())
        for upload in group.uploads:
            below = f"{group.keys.root}/{upload.digest}/"
            assert upload.newest_ms == max(time for key, time in of_model.items() if key.startswith(below))
            has_descriptor = f"{below}upload.json" in of_model
            assert (upload.descriptor is not None) == has_descriptor


def _content(group: SegmentGroup) -> dict[str, int]:
    stored = [*group.data, *([] if group.manifest is None else [group.manifest])]
    return {one.key: one.modified_at_ms for one in stored}
