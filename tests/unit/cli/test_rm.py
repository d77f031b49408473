from __future__ import annotations

import io

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from support.segments import make_metadata
from tiergate_client.errors import SegmentNotFound
from tiergate_client.ids import SegmentId
from tiergate_client.values import SegmentState


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rm_takes_every_step_of_the_deletion(cli: Cli, tiergate: InProcessTiergate, stored: list[str]) -> None:
    metadata = tiergate.metadata.get_segment(SegmentId.from_text(stored[0]))
    tiergate.watched_metadata.updates.clear()
    result = cli("rm", "--yes", stored[0])
    assert result.exit_code == 0
    assert [update.state for update in tiergate.watched_metadata.updates] == [
        SegmentState.DELETE_STARTED,
        SegmentState.DELETE_FINISHED,
    ]
    assert all(update.custom_metadata == metadata.custom_metadata for update in tiergate.watched_metadata.updates)
    with pytest.raises(SegmentNotFound):
        tiergate.metadata.get_segment(metadata.segment_id)
    with pytest.raises(SegmentNotFound):
        tiergate.storage.get_manifest(metadata)


def test_rm_goes_on_with_a_deletion_that_was_begun(cli: Cli, tiergate: InProcessTiergate, stored: list[str]) -> None:
    metadata = tiergate.metadata.get_segment(SegmentId.from_text(stored[0]))
    tiergate.metadata.update_segment(metadata.step(SegmentState.DELETE_STARTED, event_timestamp_ms=1))
    assert cli("rm", "--yes", stored[0]).exit_code == 0


def test_rm_deletes_a_copy_that_was_never_finished(cli: Cli, tiergate: InProcessTiergate) -> None:
    announced = make_metadata()
    tiergate.metadata.add_segment(announced)
    assert cli("rm", "--yes", str(announced.segment_id)).exit_code == 0


def test_rm_deletes_several_and_answers_in_json(cli: Cli, stored: list[str]) -> None:
    document = cli("rm", "-y", stored[0], stored[1], stored[0], "-o", "json").document
    assert [segment["segment_id"] for segment in document["deleted"]] == stored[:2]


def test_rm_deletes_nothing_when_one_of_the_segments_is_unknown(
    cli: Cli, tiergate: InProcessTiergate, stored: list[str]
) -> None:
    assert cli("rm", "--yes", stored[0], str(SegmentId(bytes(15) + b"\x01"))).exit_code == 3
    assert tiergate.metadata.get_segment(SegmentId.from_text(stored[0])).state is SegmentState.COPY_FINISHED


def test_rm_needs_yes_when_nobody_can_be_asked(
    cli: Cli, tiergate: InProcessTiergate, stored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    result = cli("rm", stored[0])
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert tiergate.metadata.get_segment(SegmentId.from_text(stored[0])).state is SegmentState.COPY_FINISHED


@pytest.mark.parametrize(("answer", "exit_code", "left"), [("y\n", 0, 2), ("n\n", 1, 3), ("\n", 1, 3), ("", 130, 3)])
def test_rm_asks_at_a_terminal(
    cli: Cli, stored: list[str], monkeypatch: pytest.MonkeyPatch, answer: str, exit_code: int, left: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    result = cli("rm", stored[0])
    assert result.exit_code == exit_code
    assert "Delete 1 segment for good?" in result.stderr
    assert len(cli("ls", "orders", "-o", "json").document["segments"]) == left
