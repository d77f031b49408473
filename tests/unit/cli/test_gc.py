"""`tiergate gc` on the real domain in this process: what it says, removes and refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate, hosting
from support.planted_garbage import Plantation, stored_keys
from tiergate_client.errors import StorageUnavailable
from tiergate_client.ids import LogId
from tiergate_server.adapters.filesystem_store import FilesystemStore
from tiergate_server.segments.store_layout import MARKER_KEY
from tiergate_server.segments.store_marker import StoreMarkerV1, read_marker, rebind

NOW = ("--older-than", "0s", "--no-upload-runs")


@pytest.fixture
def log_id(tiergate: InProcessTiergate) -> LogId:
    assert tiergate.info.log_id is not None
    return tiergate.info.log_id


@pytest.fixture
def planted(tiergate: InProcessTiergate, tmp_path: Path, log_id: LogId) -> Plantation:
    plantation = Plantation(FilesystemStore(tmp_path / "objects"), tiergate.metadata)
    plantation.one_of_each_kind(log_id)
    return plantation


@pytest.fixture
def gc(cli: Cli, tmp_path: Path) -> Cli:
    place = f"segments.store=file://{tmp_path / 'objects'}"
    return lambda *words: cli("gc", "--set", place, *words)


def test_gc_only_tells_unless_it_shall_delete(gc: Cli, planted: Plantation) -> None:
    before = stored_keys(planted.store)
    result = gc(*NOW)
    assert result.exit_code == 0, result.stderr
    for meaning in (
        "segments that no metadata refers to",
        "uploads that another one has overtaken",
        "descriptors of uploads that ended",
        "tombstones of deleted segments",
        "abandoned partial uploads",
    ):
        assert f"default  {meaning}" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("; add --delete to do so")
    assert "left alone in store default" in result.stderr
    assert "notes.txt" in result.stderr
    assert stored_keys(planted.store) == before


def test_gc_removes_exactly_the_garbage_with_delete(gc: Cli, planted: Plantation) -> None:
    result = gc(*NOW, "--delete", "-o", "json")
    assert result.exit_code == 0, result.stderr
    document = result.document
    assert (document["dry_run"], document["older_than_seconds"]) == (False, 0)
    found = document["stores"]["default"]["garbage"]
    assert {kind: tally["object_count"] for kind, tally in found.items()} == {
        kind.value: count for kind, count in planted.counts().items()
    }
    assert document["stores"]["default"]["unknown"]["object_count"] == 2
    planted.assert_only_the_garbage_is_gone()
    assert ", and nothing is garbage for longer than 0s" in gc(*NOW, "--delete").stdout


def test_gc_leaves_the_last_day_alone_unless_told_otherwise(gc: Cli, planted: Plantation) -> None:
    before = stored_keys(planted.store)
    result = gc("--delete")
    assert "nothing is garbage for longer than 1d" in result.stdout
    assert stored_keys(planted.store) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--older-than", "59m"), "less than 1h would end uploads that run; if none does, add --no-upload-runs"),
        (("--older-than", "soon"), "'soon' is no span of time: write it like 90s, 30m, 24h or 7d"),
    ],
)
def test_gc_refuses_a_safety_age_that_is_none(
    gc: Cli, planted: Plantation, words: tuple[str, ...], message: str
) -> None:
    before = stored_keys(planted.store)
    result = gc("--delete", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert stored_keys(planted.store) == before


Change = Callable[[InProcessTiergate, Plantation, LogId], object]


def _is_rebuilding(_tiergate: InProcessTiergate, planted: Plantation, log_id: LogId) -> None:
    rebind(planted.store, StoreMarkerV1(log_id, is_rebuilding=True))


def _is_not_ready(tiergate: InProcessTiergate, _planted: Plantation, _log_id: LogId) -> None:
    tiergate.info = replace(tiergate.info, ready=False)


def _hosts_a_part(tiergate: InProcessTiergate, _planted: Plantation, _log_id: LogId) -> None:
    tiergate.scripted_admin.assignment = hosting(0, 1, 2)


def _cannot_read_all(tiergate: InProcessTiergate, _planted: Plantation, _log_id: LogId) -> None:
    tiergate.scripted_admin.assignment = hosting(0, 1, 2, 3, corrupt_at={2: 7})


def _is_behind(tiergate: InProcessTiergate, _planted: Plantation, _log_id: LogId) -> None:
    whole = hosting(0, 1, 2, 3)
    behind = tuple(replace(one, ready=one.metadata_partition != 1) for one in whole.hosted)
    tiergate.scripted_admin.assignment = replace(whole, hosted=behind)


REFUSALS: dict[str, tuple[Change, int, str]] = {
    "no marker": (
        lambda _tiergate, planted, _log_id: planted.store.delete(MARKER_KEY),
        5,
        "store default has no marker that says which metadata log it belongs to: bind it to",
    ),
    "another log": (
        lambda _tiergate, planted, _log_id: rebind(planted.store, StoreMarkerV1(LogId(b"o" * 16))),
        5,
        f"store default belongs to the metadata log {LogId(b'o' * 16)}, and the metadata plane is on",
    ),
    "rebuilding": (_is_rebuilding, 5, "store default is being rebuilt into its metadata log"),
    "not ready": (_is_not_ready, 4, "the metadata plane has not caught up with its log"),
    "partial": (_hosts_a_part, 5, "hosts 3 of 4 metadata partitions, and so cannot say what is in use"),
    "corrupt log": (_cannot_read_all, 5, "cannot read all of metadata partition 2, and so cannot say"),
    "behind": (_is_behind, 5, "has not yet read metadata partition 1, and so cannot say"),
}


@pytest.mark.parametrize(("change", "exit_code", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_gc_refuses_with_one_sentence_and_removes_nothing(
    gc: Cli,
    tiergate: InProcessTiergate,
    planted: Plantation,
    log_id: LogId,
    change: Change,
    exit_code: int,
    message: str,
) -> None:
    change(tiergate, planted, log_id)
    before = stored_keys(planted.store)
    result = gc(*NOW, "--delete")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert stored_keys(planted.store) == before


def test_gc_refuses_an_empty_log_beside_a_store_with_segments_and_does_not_bind_it(
    gc: Cli, tiergate: InProcessTiergate, tmp_path: Path
) -> None:
    planted = Plantation(FilesystemStore(tmp_path / "objects"), tiergate.metadata)
    planted.orphan()
    result = gc(*NOW, "--delete", "--bind")
    assert result.exit_code == 5
    assert "is empty and store default holds segments" in result.stderr
    assert stored_keys(planted.store) == planted.garbage_keys


def test_gc_binds_a_store_without_a_marker_when_told_to(gc: Cli, planted: Plantation, log_id: LogId) -> None:
    planted.store.delete(MARKER_KEY)
    assert gc(*NOW, "--delete", "--bind").exit_code == 0
    assert read_marker(planted.store) == StoreMarkerV1(log_id)
    planted.assert_only_the_garbage_is_gone()


def test_gc_never_binds_away_a_store_of_another_log(gc: Cli, planted: Plantation) -> None:
    theirs = StoreMarkerV1(LogId(b"o" * 16))
    rebind(planted.store, theirs)
    assert gc(*NOW, "--delete", "--bind").exit_code == 5
    assert read_marker(planted.store) == theirs


def test_gc_makes_no_directory_where_there_is_no_store(cli: Cli, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    result = cli("gc", "--set", f"segments.store=file://{missing}")
    assert result.exit_code == 1
    assert "does not exist" in result.stderr
    assert not missing.exists()


def test_gc_says_how_far_it_came_when_it_is_cut_off(
    gc: Cli, planted: Plantation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageUnavailable("the disk is gone; check it")

    monkeypatch.setattr(FilesystemStore, "delete_many", fail)
    result = gc(*NOW, "--delete")
    assert result.exit_code == 4
    assert "; the same command goes on: the disk is gone" in result.stderr
    planted.assert_nothing_is_lost()


def test_gc_visits_every_store(cli: Cli, tiergate: InProcessTiergate, tmp_path: Path, log_id: LogId) -> None:
    places = {name: tmp_path / name for name in ("hot", "cold")}
    plantations = [Plantation(FilesystemStore(place), tiergate.metadata) for place in places.values()]
    for plantation in plantations:
        plantation.one_of_each_kind(log_id)
    toml = tmp_path / "tiergate.toml"
    toml.write_text(
        '[segments]\ndefault_store = "hot"\n[segments.store]\n'
        + "".join(f'{name} = "file://{place}"\n' for name, place in places.items())
    )
    result = cli("gc", "--config", str(toml), *NOW, "--delete", "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert sorted(result.document["stores"]) == ["cold", "hot"]
    for plantation in plantations:
        plantation.assert_only_the_garbage_is_gone()
