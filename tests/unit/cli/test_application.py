"""What holds for every command: exit codes, the form of errors, help, version, start-up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from unit.cli.conftest import Cli

from support.in_process_tiergate import InProcessTiergate
from tiergate_client import errors
from tiergate_client.exit_codes import ExitCode
from tiergate_server.cli.application import run
from tiergate_server.cli.failures import describe
from tiergate_server.cli.session import Session
from tiergate_server.kafka_files.sample import SamplePartition

PROGRAM = [sys.executable, "-m", "tiergate_server"]


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.InvalidField("x"), 2),
        (errors.OffsetOutOfRange("x"), 2),
        (errors.SentDataCorrupt("x"), 1),
        (errors.SegmentNotFound("x"), 3),
        (errors.IndexNotFound("x"), 3),
        (errors.TopicNotFound("x"), 3),
        (errors.Unavailable("x"), 4),
        (errors.MetadataNotReady("x"), 4),
        (errors.DeadlineExceeded("x"), 4),
        (errors.LimitExceeded("x"), 4),
        (errors.InvalidTransition("x"), 5),
        (errors.LogChanged("x"), 5),
        (errors.SegmentConflict("x"), 5),
        (errors.StoredDataCorrupt("x"), 6),
        (errors.MetadataCorrupt("x"), 6),
        (errors.CommitStateUnknown("x"), 1),
        (errors.NotAllowed("x"), 1),
        (errors.InternalError("x"), 1),
        (FileExistsError("x"), 1),
    ],
)
def test_exit_code_follows_from_the_error(error: Exception, exit_code: int) -> None:
    failure = describe(error)
    assert failure.exit_code == exit_code
    assert failure.message.startswith("x")


@pytest.mark.parametrize(
    "error",
    [
        errors.MetadataNotReady("the log is being read; try again, on any replica"),
        errors.NotHosted("this replica does not host metadata partition 3; go to one that does"),
        errors.MetadataLogUnavailable("the metadata log did not take the event in time; try again"),
        errors.StorageUnavailable("others copy and delete it all the time: try again"),
        errors.MetadataLogUnavailable("Kafka does not tell about the topic: check the brokers"),
        errors.StoredDataCorrupt("the stored log ends early at 7: restore it, or delete the segment"),
    ],
)
def test_advice_of_the_server_is_not_doubled(error: errors.TiergateError) -> None:
    assert describe(error).message == error.message


def test_advice_is_added_when_the_message_has_none() -> None:
    assert describe(errors.MetadataLogUnavailable("it is closed")).message == "it is closed; try again in a moment"
    assert describe(errors.Unavailable("broken; errno 5")).message == "broken; errno 5; try again in a moment"
    assert "remove the segment" in describe(errors.StoredDataCorrupt("block 0 does not match")).message


@pytest.mark.parametrize("option", ["--target", "--segments"])
@pytest.mark.parametrize("address", ["nonsense", "host:", "host:port", "host:0", "host:65536", ":7400", ""])
@pytest.mark.parametrize("command", ["ls", "status"])
def test_addresses_that_cannot_be_one_are_wrong_usage(cli: Cli, option: str, address: str, command: str) -> None:
    result = cli(option, address, command)
    assert result.exit_code == 2
    assert f"{option}: {address!r} is not host:port" in result.stderr


@pytest.mark.parametrize("address", ["host:1", "[::1]:7400", "dns:///name:7400", "unix:///run/tiergate.sock"])
def test_addresses_may_be_whatever_the_client_takes(cli: Cli, address: str) -> None:
    assert cli("--target", address, "ls").exit_code == 0


def test_config_folds_values_and_nothing_else_when_the_terminal_is_narrow(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    directory = tmp_path / ("d" * 100)
    lines = cli("config", "--data-dir", str(directory)).stdout.splitlines()
    rows = [line.split() for line in lines]
    keys = [setting["key"] for setting in cli("config", "-o", "json").document["settings"]]
    assert set(keys) <= {row[0] for row in rows}
    assert next(row for row in rows if row[0] == "log_level")[-1] == "default"
    assert max(map(len, lines)) <= 80
    first = next(number for number, row in enumerate(rows) if row[0] == "data_directory")
    last = next(number for number, row in enumerate(rows) if row[0] == "log_level")
    assert "".join([rows[first][1], *(row[0] for row in rows[first + 1 : last])]) == str(directory)


def test_help_names_every_exit_code(cli: Cli) -> None:
    result = cli("--help")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert all(f"{int(code)} " in said[said.index("Exit codes:") :] for code in ExitCode)


def test_no_arguments_show_the_help(cli: Cli) -> None:
    assert cli().stdout == cli("--help").stdout


def test_version_is_that_of_the_distribution(cli: Cli) -> None:
    assert cli("--version").stdout.startswith("tiergate 0.")


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["ls", "--nonsense"], ["show"], ["--timeout", "0", "ls"], ["health"]]
)
def test_wrong_usage_is_one_sentence_that_names_the_help(cli: Cli, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("tiergate: ")
    assert "--help`" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_option_that_stands_before_the_command_is_told_so_behind_it(cli: Cli) -> None:
    result = cli("ls", "--target", "127.0.0.1:1")
    assert (result.exit_code, result.stderr) == (
        2,
        "tiergate: --target stands before the command; see `tiergate --help`\n",
    )


def test_wrong_usage_is_json_when_json_is_asked_for(cli: Cli) -> None:
    assert cli("show", "-o", "json").error["exit_code"] == 2


def test_unforeseen_errors_become_a_sentence(
    cli: Cli, tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defective(**_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(tiergate.watched_metadata, "list_partitions", defective)
    result = cli("ls")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "KeyError" in result.stderr
    monkeypatch.setenv("TIERGATE_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli("ls")


def test_connection_takes_flags_before_the_environment(
    tiergate: InProcessTiergate, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Session] = []

    def connector(session: Session) -> nullcontext[InProcessTiergate]:
        seen.append(session)
        return nullcontext(tiergate)

    monkeypatch.setenv("TIERGATE_TARGET", "environment:1")
    monkeypatch.setenv("TIERGATE_SEGMENTS_TARGET", "environment:2")
    run(["ls"], connector=connector)
    run(["--target", "flag:1", "--segments", "flag:2", "--timeout", "2.5", "ls"], connector=connector)
    assert [(session.target, session.segments, session.timeout_s) for session in seen] == [
        ("environment:1", "environment:2", 30.0),
        ("flag:1", "flag:2", 2.5),
    ]


def test_broken_pipe_is_quiet(sample: SamplePartition, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*PROGRAM, "sample", str(tmp_path), "--segments", "1", "--segment-bytes", "16384"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert ended.stderr == b""
    assert ended.returncode == 1


def test_unreachable_server_is_reported_by_the_real_client() -> None:
    ended = subprocess.run(
        [*PROGRAM, "--target", "127.0.0.1:1", "--timeout", "5", "ls", "-o", "json"], capture_output=True, check=False
    )
    assert ended.returncode == 4
    assert ended.stdout == b""
    assert json.loads(ended.stderr)["error"]["details"]["address"] == "127.0.0.1:1"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_offers_the_commands(shell: str) -> None:
    words = "tiergate st"
    environment = os.environ | {
        "_TIERGATE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "COMP_WORDS": words,
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    ended = subprocess.run(
        [sys.executable, "-c", "from tiergate_server.cli import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "status" in ended.stdout
    assert "put" not in ended.stdout.split()


def test_sample_says_what_to_do_next_and_never_overwrites(cli: Cli, tmp_path: Path) -> None:
    options = ("--segments", "1", "--segment-bytes", "16384")
    first = cli("sample", str(tmp_path), *options)
    assert first.exit_code == 0
    assert f"tiergate put {tmp_path / 'orders-0'}" in first.stdout
    again = cli("sample", str(tmp_path), *options, "-o", "json")
    assert again.exit_code == 1
    assert "exists already" in again.error["message"]
    assert cli("sample", str(tmp_path), "--topic", "a/b").exit_code == 2
