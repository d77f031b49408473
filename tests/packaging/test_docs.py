"""The docs name only what exists, and the README can be followed word for word."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from support.markdown import code_blocks, code_lines
from support.service import started_service
from support.wheels import ROOT, plain_environment
from tiergate_server.cli import app
from tiergate_spark.option_names import OPTIONS

_README = ROOT / "README.md"
_SPARK_PAGE = ROOT / "docs" / "spark.md"
_PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_VENV = Path(sys.executable).parents[1]
_TELLS_WHERE_IT_HANGS = "import faulthandler; faulthandler.dump_traceback_later(100, exit=True)\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`make run`, as the README has it; set-up is not done again beside the tests that run in the same environment."""
    first_word, *words = code_blocks(_README, "")[1].splitlines()[0].partition("#")[0].split()
    command = [first_word, "--assume-old=.venv/.run-ready", f"PYTHON={sys.executable}", *words]
    with started_service(command, data_directory=tmp_path_factory.mktemp("data"), cwd=ROOT) as target:
        yield target


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory, service: str) -> Path:
    """The directory in which the README's commands were typed, all of them succeeding."""
    directory = tmp_path_factory.mktemp("readme")
    (directory / ".venv").symlink_to(_VENV)
    script = "\n".join(code_blocks(_README, "sh"))
    finished = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=directory,
        env=plain_environment(TIERGATE_TARGET=service),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (directory / "printed").write_text(finished.stdout)
    return directory


def test_shell_blocks_of_the_readme_do_what_they_say(followed: Path) -> None:
    printed = (followed / "printed").read_text()
    assert "4 segments copied" in printed
    assert re.search(r"^segments\.limits\.uploads\s+16\s+file tiergate\.toml", printed, re.MULTILINE)
    assert (followed / "sample" / "first.log").stat().st_size > 0


def test_python_block_of_the_readme_reads_what_the_shell_blocks_put(followed: Path, service: str) -> None:
    program, _ = code_blocks(_README, "python")
    assert program.count('"127.0.0.1:7400"') == 1
    finished = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:7400", service)],
        cwd=followed,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "4096 bytes of its log" in finished.stdout
    assert finished.stdout.startswith("orders-0 ")


@pytest.mark.timeout(400)  # two streams, in a Spark of its own
def test_programs_of_the_spark_page_and_its_notebook_read_what_the_shell_blocks_put(
    followed: Path, service: str
) -> None:
    _, from_readme = code_blocks(_README, "python")
    notebook = notebook_cells(ROOT / "docs" / "spark-quickstart.ipynb")
    programs = [from_readme, *code_blocks(_SPARK_PAGE, "python"), *notebook]
    finished = subprocess.run(
        [sys.executable, "-c", "\n".join(programs).replace("127.0.0.1:7400", service)],
        cwd=followed,
        env=plain_environment(
            PATH=f"{_VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",  # as in an activated environment
            SPARK_LOCAL_IP="127.0.0.1",
            TIERGATE_TARGET=service,
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "max(offset)" in finished.stdout
    whole, committed = map(
        int, re.findall(r"^(\d+) records, of them committed: (\d+)$", finished.stdout, re.MULTILINE)[0]
    )
    assert 0 < committed < whole
    assert list((followed / "orders-parquet").glob("*.parquet"))


def test_spark_page_lists_every_option_once() -> None:
    rows = [line.split("|")[1] for line in _SPARK_PAGE.read_text(encoding="utf-8").splitlines() if "|" in line]
    named = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert sorted(name for name in named if name in OPTIONS) == sorted(OPTIONS)


def notebook_cells(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_programs_of_the_client_page_run_and_copy(followed: Path, service: str) -> None:
    for program in code_blocks(ROOT / "docs" / "python-client.md", "python"):
        finished = subprocess.run(
            [sys.executable, "-c", _TELLS_WHERE_IT_HANGS + program.replace("127.0.0.1:7400", service)],
            cwd=followed,
            env=plain_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, f"{program}\n{finished.stderr}"
    listed = subprocess.run(
        [_VENV / "bin" / "tiergate", "--target", service, "ls", "copied-by-hand", "-o", "json"],
        env=plain_environment(),
        capture_output=True,
        check=True,
    ).stdout
    assert [segment["end_offset"] for segment in json.loads(listed)["segments"]] == [4932]


def test_every_make_target_in_the_docs_exists() -> None:
    rules = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = _second_words("make")
    assert {"run", "test", "check"} <= named
    assert named <= set(rules)


def test_every_subcommand_in_the_docs_exists() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    named = _second_words("tiergate")
    assert {"status", "put", "serve"} <= named
    assert named <= group.commands.keys()


def test_every_link_between_pages_leads_somewhere() -> None:
    links = [
        (page.name, target)
        for page in _PAGES
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert links == []


def _second_words(command: str) -> set[str]:
    """What follows a command wherever the docs show it as code."""
    lines = [line for page in _PAGES for line in code_lines(page)]
    return {word for line in lines for word in re.findall(rf"(?:^|\$\(){command} +([a-z][a-z-]*)", line)}
