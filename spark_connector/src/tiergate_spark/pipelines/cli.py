"""The application `tiergate-spark`: its commands, their shared options, and how it ends.

Works alike as a console script and under spark-submit, see `tiergate_spark/spark_submit`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Annotated, Final, NoReturn

import typer

from tiergate_client import Access
from tiergate_client.exit_codes import ExitCode
from tiergate_client.failures import Failure
from tiergate_spark.pipelines.export_command import export
from tiergate_spark.pipelines.failures import EXIT_CODES_HELP, describe
from tiergate_spark.pipelines.key_values import parse_key_values
from tiergate_spark.pipelines.offload_command import offload
from tiergate_spark.pipelines.profile_command import profile
from tiergate_spark.pipelines.session import DEFAULT_TARGET, Session, session_of
from tiergate_spark.pipelines.verify_command import verify

PROGRAM: Final = "tiergate-spark"
_MASTER: Final = re.compile(r"yarn|local(\[(\d+|\*)(, ?\d+)?\])?|local-cluster\[.+\]|(spark|k8s)://.+")

_COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    offload,
    export,
    verify,
    profile,
)

app = typer.Typer(
    name=PROGRAM,
    help="Pipelines between Kafka's remote tier and Spark.",
    epilog=EXIT_CODES_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in _COMMANDS:
    app.command()(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            number = version(PROGRAM)
        except PackageNotFoundError:  # it came as a zip
            number = "(not installed)"
        typer.echo(f"{PROGRAM} {number}")
        raise typer.Exit


def _print_main_file(wanted: bool) -> None:
    if wanted:
        typer.echo(str(files("tiergate_spark") / "spark_submit" / "main.py"))
        raise typer.Exit


@app.callback()
def _shared_options(
    context: typer.Context,
    *,
    target: Annotated[
        str, typer.Option(metavar="HOST:PORT", envvar="TIERGATE_TARGET", help="Address of the metadata plane.")
    ] = DEFAULT_TARGET,
    segments: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="TIERGATE_SEGMENTS_TARGET",
            help="Address of the segment plane, when not the one that the metadata plane names.",
        ),
    ] = None,
    access: Annotated[Access, typer.Option(help="How segments are read.")] = "auto",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark's master; otherwise as spark-submit or Spark itself has it."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
    ] = None,
    ship: Annotated[
        bool, typer.Option("--ship", help="Send this package to executors that do not have it installed.")
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    main_file: Annotated[  # noqa: ARG001 - its callback does the work
        bool,
        typer.Option(
            "--main-file", callback=_print_main_file, is_eager=True, help="Show the file for spark-submit and exit."
        ),
    ] = False,
) -> None:
    session = session_of(context)
    session.target = target
    session.segments = segments
    session.access = access
    session.master = master
    session.ship = ship
    session.conf = parse_key_values(conf, option="--conf")
    _require_master(session.master, option="--master")
    _require_master(session.conf.get("spark.master"), option="--conf spark.master")


def _require_master(master: str | None, *, option: str) -> None:
    """Of one that it does not know, the JVM tells with a stack trace, before anybody could catch it."""
    if master is not None and not _MASTER.fullmatch(master):
        raise typer.BadParameter(
            f"{master!r} is no master of Spark's, such as local[4], yarn, spark://HOST:PORT or k8s://HOST:PORT",
            param_hint=option,
        )


def main() -> NoReturn:
    # gRPC's core writes lines of its own to stderr, beside the one sentence that we write.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # And so does py4j, with tracebacks, when Ctrl-C comes in the middle of a call of the JVM; also as nobody's logger.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: not record.getMessage().endswith("while sending command."))
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit code. Failures become one sentence on stderr, never a traceback."""
    session = Session()
    try:
        code = typer.main.get_command(app).main(
            args=list(arguments) or ["--help"], prog_name=PROGRAM, standalone_mode=False, obj=session
        )
        sys.stdout.flush()
    except typer.Abort:
        code = ExitCode.INTERRUPTED
    except typer.TyperException as error:
        return _fail(session, _of_usage(error))
    except Exception as error:
        if os.environ.get("TIERGATE_TRACEBACK"):
            raise
        return _fail(session, describe(error))
    if code == ExitCode.INTERRUPTED:
        return _fail(
            session,
            Failure("interrupted; run it again: offload and export go on where they were", ExitCode.INTERRUPTED),
        )
    return code if isinstance(code, int) else ExitCode.DONE


def _of_usage(error: typer.TyperException) -> Failure:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else PROGRAM
    if context and (option := getattr(error, "option_name", None)) in _options_before_commands(context):
        return Failure(f"{option} stands before the command; see `{PROGRAM} --help`", ExitCode.USAGE, "USAGE")
    message = " ".join(error.format_message().split()).rstrip(".")  # choices are listed in lines of their own
    message = message.replace("Value error, ", "", 1)  # of the library that checks choices
    return Failure(f"{message}; see `{command} --help`", ExitCode.USAGE, "USAGE")


def _options_before_commands(context: typer.Context) -> set[str]:
    return {name for parameter in context.find_root().command.params for name in parameter.opts}


def _fail(session: Session, failure: Failure) -> int:
    sys.stderr.write(failure.as_json() + "\n" if session.json else f"{PROGRAM}: {failure.message}\n")
    return failure.exit_code
