"""`metadata assignment`, `metadata snapshot`, and what `status` says of the metadata log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate, hosting
from tiergate_client.errors import NotOffered
from tiergate_client.ids import TopicId


def test_assignment_shows_what_is_hosted(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.scripted_admin.assignment = hosting(0, 1, 3, corrupt_at={3: 17})
    document = cli("metadata", "assignment", "-o", "json").document
    assert document["partition_count"] == 4
    assert document["hosted"][2] == {"metadata_partition": 3, "applied_offset": 2, "ready": True, "corrupt_at": 17}
    lines = cli("metadata", "assignment").stdout.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["0", "-", "yes", "-"],
        ["1", "0", "yes", "-"],
        ["3", "2", "yes", "17"],
    ]
    assert lines[-1] == "hosts 3 of 4 metadata partitions: 0-1,3"
    assert tiergate.scripted_admin.wanted == []


def test_assignment_sets_metadata_and_user_partitions(cli: Cli, tiergate: InProcessTiergate) -> None:
    topic_id = TopicId.random()
    assert cli("metadata", "assignment", "--set", f"0-2,9,{topic_id}:7").exit_code == 0
    assert cli("metadata", "assignment", "--all").exit_code == 0
    assert tiergate.scripted_admin.wanted == [([0, 1, 2, 9], [(topic_id, 7)]), ([], [])]


@pytest.mark.parametrize("wanted", ["", "3-1", "1,,2", "a", "0-9999999999", "0-999999999", "short:1", "-1"])
def test_assignment_refuses_nonsense_and_asks_nothing(cli: Cli, tiergate: InProcessTiergate, wanted: str) -> None:
    result = cli("metadata", "assignment", f"--set={wanted}")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert tiergate.scripted_admin.wanted == []


def test_assignment_is_refused_when_both_all_and_some_are_asked_for(cli: Cli) -> None:
    assert cli("metadata", "assignment", "--all", "--set", "1").exit_code == 2


def test_snapshot_says_where_it_is_and_how_large(cli: Cli) -> None:
    assert cli("metadata", "snapshot").stdout == "saved snapshots/new (2.0 KiB)\n"
    assert cli("metadata", "snapshot", "-o", "json").document == {"location": "snapshots/new", "size_bytes": 2048}


def test_snapshot_fails_with_the_way_out_when_there_is_no_place(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.scripted_admin.snapshot = NotOffered(
        "no place for snapshots is configured; set metadata.snapshot.directory"
    )
    result = cli("metadata", "snapshot")
    assert result.exit_code == 1
    assert "metadata.snapshot.directory" in result.stderr


def test_status_says_nothing_of_the_log_when_all_is_as_usual(cli: Cli) -> None:
    result = cli("status")
    assert not any(word in result.stdout for word in ("hosts", "unreadable", "follows"))
    assert cli("status", "-o", "json").document["metadata_log"] == {
        "follows": False,
        "partition_count": 4,
        "hosted": [0, 1, 2, 3],
        "corrupt": [],
    }


def test_status_tells_corruption_partial_hosting_and_follow_mode(cli: Cli, tiergate: InProcessTiergate) -> None:
    tiergate.scripted_admin.assignment = hosting(0, 1, 3, corrupt_at={1: 17})
    tiergate.info = replace(tiergate.info, features=("follow",))
    human = cli("status").stdout
    assert "3 of 4 metadata partitions: 0-1,3" in human
    assert "metadata partition 1 from offset 17" in human
    assert "follows the log of another service" in human
    log = cli("status", "-o", "json").document["metadata_log"]
    assert log["follows"] is True
    assert log["corrupt"] == [{"metadata_partition": 1, "offset": 17}]
