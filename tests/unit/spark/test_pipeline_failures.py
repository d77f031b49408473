"""What is told about errors, also those of a Python worker that come back as text."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyspark.errors import PythonException, SparkNoSuchElementException

from tiergate_client.errors import TopicNotFound
from tiergate_client.exit_codes import ExitCode
from tiergate_client.local_log import NoPartitionDirectory, UnreadablePartitionDirectory
from tiergate_spark.pipelines.cli import run
from tiergate_spark.pipelines.failures import describe
from tiergate_spark.pipelines.progress import ProgressLine

_WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "worker.py", line 3592, in main
    process()
KeyError: 'the first one'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "segment_offload.py", line 72, in offload_segment
{last}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:665)
Caused by: java.lang.Nothing: not this one
"""


@pytest.mark.parametrize(
    ("last", "message", "exit_code"),
    [
        (
            "tiergate_client.errors.StorageUnavailable: the store is away",
            "the store is away; try again in a moment",
            ExitCode.OUT_OF_REACH,
        ),
        ("tiergate_client.errors.CorruptBatch: segment X at 5", "segment X at 5", ExitCode.CORRUPT),
        (
            "tiergate_client.errors.OffsetOutOfRange: accept the loss of data (failOnDataLoss=false)",
            "accept the loss of data (--skip-missing)",
            ExitCode.USAGE,
        ),
        ("ZeroDivisionError: division by zero", "a task failed: ZeroDivisionError: division by zero", ExitCode.FAILED),
    ],
)
def test_error_of_a_worker_is_told_by_its_last_line(last: str, message: str, exit_code: ExitCode) -> None:
    failure = describe(PythonException(_WORKER.format(last=last)))
    assert (failure.message, failure.exit_code) == (message, exit_code)


def test_loss_of_a_worker_is_told_by_the_most_recent_failure() -> None:
    text = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, \
most recent failure: Lost task 1.3 in stage 0.0 (TID 7) (127.0.0.1 executor 1): java.io.IOException: the pipe is broken
\tat java.base"""
    failure = describe(SparkNoSuchElementException(text))
    assert failure.message.startswith("Spark failed: java.io.IOException: the pipe is broken; ")


def test_missing_package_on_executors_is_told_with_the_way_out() -> None:
    failure = describe(PythonException(_WORKER.format(last="ModuleNotFoundError: No module named 'tiergate_spark'")))
    assert "--ship" in failure.message


@pytest.mark.parametrize(
    ("error", "message", "exit_code"),
    [
        (
            TopicNotFound("there is no topic x."),
            "there is no topic x; `tiergate ls` lists what is there",
            ExitCode.NOT_FOUND,
        ),
        (
            TopicNotFound("the tier knows no topic 'x'; `tiergate ls` lists what is there"),
            "the tier knows no topic 'x'; `tiergate ls` lists what is there",
            ExitCode.NOT_FOUND,
        ),
        (UnreadablePartitionDirectory("x is no directory"), "x is no directory", ExitCode.FAILED),
        (NoPartitionDirectory("x is no directory"), "x is no directory", ExitCode.NOT_FOUND),
        (FileNotFoundError(2, "No such file", "x"), "x: no such file", ExitCode.FAILED),
    ],
)
def test_error_of_the_driver_is_one_sentence(error: Exception, message: str, exit_code: ExitCode) -> None:
    failure = describe(error)
    assert (failure.message, failure.exit_code) == (message, exit_code)


def test_wrong_usage_is_one_sentence_without_starting_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--conf", "spark.cores", "offload", "x"]) == ExitCode.USAGE
    assert run(["export", "orders"]) == ExitCode.USAGE
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("tiergate-spark: Invalid value for --conf: 'spark.cores' is not KEY=VALUE")
    assert "--to" in second


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["--master", "foo", "verify"], ExitCode.USAGE, "Invalid value for --master: 'foo' is no master of Spark's"),
        (["--conf", "spark.master=local[x]", "verify"], ExitCode.USAGE, "--conf spark.master: 'local[x]' is no master"),
        (["export", "orders", "--to", "x", "--isolation", "commited"], ExitCode.USAGE, "'--isolation': 'commited' is"),
        (["export", "orders", "--to", "x", "--partition-by", "day"], ExitCode.USAGE, "'day'; there are date and hour"),
        (["export", "orders", "--to", "x", "--format", "CSV"], ExitCode.USAGE, "leave it out with --no-headers"),
        (["profile", "orders", "--html", "/nosuch/p.html"], ExitCode.USAGE, "--html: there is no directory /nosuch"),
        (["profile", "orders", "--html", "/"], ExitCode.USAGE, "--html: / is a directory"),
        (["offload", "/nosuch-0"], ExitCode.NOT_FOUND, "/nosuch-0 is no directory"),
    ],
)
def test_what_is_wrong_from_the_start_is_told_before_spark_starts(
    words: list[str],
    exit_code: ExitCode,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/nosuch")  # there is no Spark to start
    assert run(words) == exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_option_that_stands_before_the_command_is_told_so_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "orders", "--target", "127.0.0.1:1"]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "tiergate-spark: --target stands before the command; see `tiergate-spark --help`\n"
    )


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "yarn", "spark://a:7077,b:7077", "k8s://c"])
def test_master_of_every_kind_is_taken(master: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--master", master, "offload", "/nosuch-0"]) == ExitCode.NOT_FOUND
    assert "/nosuch-0" in capsys.readouterr().err


def test_help_names_the_exit_code_of_a_command_that_is_terminated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == ExitCode.DONE
    assert "143 terminated" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("time", ["1969-12-31", "99999999999999999999", "yesterday"])
def test_time_that_no_record_has_is_wrong_usage(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "orders", "--to", "x", "--from-time", time]) == ExitCode.USAGE
    assert f"--from-time: '{time}' is " in capsys.readouterr().err


def test_main_file_for_spark_submit_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--main-file"]) == ExitCode.DONE
    assert "main()" in Path(capsys.readouterr().out.strip()).read_text()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_silent_for_two_seconds_and_then_changes_one_line() -> None:
    now, terminal = [100.0], Terminal()
    line = ProgressLine(terminal, clock=lambda: now[0])
    line("copying: 1 of 9 segments")
    assert terminal.getvalue() == ""
    now[0] += 2
    line("copying: 2 of 9 segments")
    line("done")
    assert terminal.getvalue() == "\rcopying: 2 of 9 segments\rdone                    "
    line.clear()
    assert terminal.getvalue().endswith("\r    \r")


def test_progress_in_a_log_is_a_line_now_and_then() -> None:
    now, log = [100.0], io.StringIO()
    line = ProgressLine(log, clock=lambda: now[0])
    for second in range(25):
        now[0] = 100.0 + second
        line(f"{second} s")
    line.clear()
    assert log.getvalue() == "2 s\n12 s\n22 s\n"
