"""`metadata watch`: what it prints, and how it goes on after the plane was away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from support.segments import make_metadata
from tiergate_client.errors import LogChanged, MetadataCorrupt, NotHosted, OffsetOutOfRange, TiergateError, Unavailable
from tiergate_client.ids import LogId
from tiergate_client.values import ConsistencyToken, MetadataChange, TopicIdPartition

LOG = LogId.random()
Step = MetadataChange | BaseException


def at(**offsets: int) -> ConsistencyToken:
    """A token such as at(p3=7)."""
    return ConsistencyToken(LOG, {int(name.removeprefix("p")): offset for name, offset in offsets.items()})


class ScriptedWatch:
    """Each watch plays the next script; the last one is interrupted, as by Ctrl-C."""

    def __init__(self, *scripts: list[Step]) -> None:
        self.scripts = list(scripts)
        self.after: list[ConsistencyToken | None] = []

    def watch(
        self, *, partition: TopicIdPartition | None = None, after: ConsistencyToken | None = None
    ) -> Iterator[MetadataChange]:
        assert partition is None
        self.after.append(after)
        if not self.scripts:
            raise KeyboardInterrupt
        for step in self.scripts.pop(0):
            if isinstance(step, BaseException):
                raise step
            yield step


@pytest.fixture
def scripted(tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch) -> ScriptedWatch:
    watching = ScriptedWatch()
    monkeypatch.setattr(tiergate.watched_metadata, "watch", watching.watch)
    monkeypatch.setattr("tiergate_server.cli.metadata_watch._FIRST_PAUSE_S", 0.0)
    return watching


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_watch_prints_changes_and_no_heartbeats_until_interrupted(cli: Cli, scripted: ScriptedWatch) -> None:
    segment = make_metadata()
    begin = [MetadataChange(None, at(p0=1, p3=6))]
    scripted.scripts = [[*begin, MetadataChange(segment, at(p3=7)), MetadataChange(None, at(p0=1, p3=7))]] * 2
    scripted.scripts[0] = [*scripted.scripts[0], KeyboardInterrupt()]
    human = cli("metadata", "watch")
    assert human.exit_code == 130
    assert human.stdout.startswith(f"partition: 3, offset: 7, value: RemoteLogSegmentMetadata{{{segment.partition}, ")
    assert len(human.stdout.splitlines()) == 1
    assert human.stderr == "tiergate: interrupted\n"
    scripted.scripts[0] = [*scripted.scripts[0], KeyboardInterrupt()]
    (document,) = lines(cli("metadata", "watch", "-o", "json").stdout)
    assert (document["metadata_partition"], document["offset"], document["topic"]) == (3, 7, "orders")


def test_watch_shows_one_topic_or_partition_only(cli: Cli, scripted: ScriptedWatch) -> None:
    wanted = make_metadata(partition=1)
    others = (make_metadata(partition=0), make_metadata(topic="others", partition=1))
    script: list[Step] = [
        *(MetadataChange(event, at(p0=offset)) for offset, event in enumerate((*others, wanted))),
        KeyboardInterrupt(),
    ]
    scripted.scripts = [script]
    of_topic = lines(cli("metadata", "watch", "orders", "-o", "json").stdout)
    assert [document["partition"] for document in of_topic] == [0, 1]
    scripted.scripts = [script]
    (of_partition,) = lines(cli("metadata", "watch", "orders", "-p", "1", "-o", "json").stdout)
    assert of_partition["segment_id"] == str(wanted.segment_id)
    assert cli("metadata", "watch", "-p", "1").exit_code == 2


def test_watch_goes_on_with_all_it_has_seen_and_tells_once_when_the_plane_was_away(
    cli: Cli, scripted: ScriptedWatch
) -> None:
    away = Unavailable("failed to connect")
    scripted.scripts = [
        [MetadataChange(None, at(p0=1, p3=6)), MetadataChange(make_metadata(), at(p3=7)), away],
        [away],
        [away],
        [MetadataChange(None, at(p0=1, p3=7)), MetadataChange(make_metadata(), at(p0=2)), KeyboardInterrupt()],
    ]
    result = cli("metadata", "watch", "-o", "json")
    assert [document["offset"] for document in lines(result.stdout)] == [7, 2]
    assert scripted.after == [None, *[at(p0=1, p3=7)] * 3]
    trouble, back, interrupted = lines(result.stderr)
    assert "failed to connect" in trouble["warning"]
    assert back == {"warning": "watching again"}
    assert interrupted["error"]["exit_code"] == 130


@pytest.mark.parametrize("gap", [OffsetOutOfRange("not kept any more"), LogChanged("of another log")])
def test_watch_says_to_list_again_and_goes_on_from_now_when_changes_were_missed(
    cli: Cli, scripted: ScriptedWatch, gap: TiergateError
) -> None:
    scripted.scripts = [[MetadataChange(None, at(p0=1)), Unavailable("away")], [gap], [Unavailable("away")]]
    result = cli("metadata", "watch")
    assert result.exit_code == 130
    assert scripted.after == [None, at(p0=1), None, None]
    assert "list again with `tiergate ls`" in result.stderr


def test_watch_fails_at_once_when_the_plane_was_never_there(cli: Cli, scripted: ScriptedWatch) -> None:
    scripted.scripts = [[Unavailable("failed to connect")]]
    result = cli("--target", "here:1", "metadata", "watch")
    assert result.exit_code == 4
    assert len(scripted.after) == 1


def test_watch_ends_when_the_plane_refuses(cli: Cli, scripted: ScriptedWatch) -> None:
    scripted.scripts = [[MetadataChange(None, at(p0=1)), MetadataCorrupt("unreadable from offset 5 on")]]
    result = cli("metadata", "watch")
    assert result.exit_code == 6


def test_watch_says_that_it_waits_when_nothing_is_known_of_the_topic(
    cli: Cli, scripted: ScriptedWatch, tiergate: InProcessTiergate
) -> None:
    scripted.scripts = []
    unknown = cli("metadata", "watch", "nope").stderr
    assert unknown == "tiergate: watching; nothing is known of nope yet\ntiergate: interrupted\n"
    tiergate.metadata.add_segment(make_metadata(partition=1))
    assert cli("metadata", "watch", "orders", "-p", "1").stderr == "tiergate: interrupted\n"
    (waiting, _) = lines(cli("metadata", "watch", "orders", "-p", "2", "-o", "json").stderr)
    assert waiting == {"warning": "watching; nothing is known of partition 2 of orders yet"}


@pytest.mark.parametrize("read", ["list_partitions", "list_segments"])
def test_watch_fails_when_the_replica_would_never_see_a_change(
    cli: Cli, scripted: ScriptedWatch, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    def not_hosted(*_: object, **__: object) -> None:
        raise NotHosted("it is not hosted here; ask the others")

    tiergate.metadata.add_segment(make_metadata(partition=1))
    monkeypatch.setattr(tiergate.watched_metadata, read, not_hosted)
    result = cli("metadata", "watch", "orders", "-p", "2")
    assert (result.exit_code, result.stderr) == (4, "tiergate: it is not hosted here; ask the others\n")
    assert scripted.after == []
