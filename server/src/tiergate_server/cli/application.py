"""The application `tiergate`: its commands, its global options, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from tiergate_client.exit_codes import ExitCode, exit_codes_help
from tiergate_client.failures import Failure
from tiergate_server.cli.config import config
from tiergate_server.cli.connection import Connector, open_connection
from tiergate_server.cli.failures import describe
from tiergate_server.cli.gc import gc
from tiergate_server.cli.get import get
from tiergate_server.cli.health import health
from tiergate_server.cli.ls import ls
from tiergate_server.cli.metadata import metadata
from tiergate_server.cli.put import put
from tiergate_server.cli.rebuild import rebuild
from tiergate_server.cli.records import records
from tiergate_server.cli.rm import rm
from tiergate_server.cli.sample import sample
from tiergate_server.cli.serve import serve
from tiergate_server.cli.session import DEFAULT_TARGET, Session, session_of
from tiergate_server.cli.show import show
from tiergate_server.cli.status import status
from tiergate_server.cli.uploads import uploads
from tiergate_server.cli.verify import verify

PROGRAM = "tiergate"

_COMMANDS = (serve, config, sample, put, ls, show, get, records, rm, uploads, gc, rebuild, verify, status, health)

app = typer.Typer(
    name=PROGRAM,
    help="Kafka's remote tier as a network service: copy segments in, find them, get them back.",
    epilog=exit_codes_help(),
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is easier to read, and there sooner
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(metadata)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version('tiergate-server')}")
        raise typer.Exit


@app.callback()
def _global_options(
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
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", envvar="TIERGATE_TIMEOUT", min=0.001, help="How long a call may take.")
    ] = 30.0,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    session = session_of(context)
    session.target = target
    session.segments = segments
    session.timeout_s = timeout


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], *, connector: Connector = open_connection) -> int:
    """Runs a command and returns its exit code. Failures become one sentence on stderr, never a traceback."""
    session = Session(connector)
    try:
        code = typer.main.get_command(app).main(
            args=list(arguments) or ["--help"], prog_name=PROGRAM, standalone_mode=False, obj=session
        )
        sys.stdout.flush()
    except typer.Abort:
        code = ExitCode.INTERRUPTED
    except typer.TyperException as error:
        return _fail(session, _of_usage(error))
    except BrokenPipeError:
        # Whoever read the output has enough of it. What is left in the buffer must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except Exception as error:
        if os.environ.get("TIERGATE_TRACEBACK"):
            raise
        return _fail(session, describe(error))
    if code == ExitCode.INTERRUPTED:
        return _fail(session, Failure("interrupted", ExitCode.INTERRUPTED))
    return code if isinstance(code, int) else ExitCode.DONE


def _of_usage(error: typer.TyperException) -> Failure:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else PROGRAM
    if context and (option := getattr(error, "option_name", None)) in _options_before_commands(context):
        return Failure(f"{option} stands before the command; see `{PROGRAM} --help`", ExitCode.USAGE, "USAGE")
    message = " ".join(error.format_message().split()).rstrip(".")  # choices are listed in lines of their own
    message = message.replace(": Value error, ", ": ", 1)  # the parser's name for what the sentence says itself
    return Failure(f"{message}; see `{command} --help`", ExitCode.USAGE, "USAGE")


def _options_before_commands(context: typer.Context) -> set[str]:
    return {name for parameter in context.find_root().command.params for name in parameter.opts}


def _fail(session: Session, failure: Failure) -> int:
    sys.stderr.write(failure.as_json() + "\n" if session.json else f"{PROGRAM}: {failure.message}\n")
    return failure.exit_code
