"""Wheels of ours and of others, and clean virtual environments to install them in, all without a network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from support.cache import cached_directory

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = ("protos", "client/python", "server", "spark_connector")


def build_wheels(directory: Path) -> None:
    """Builds our wheels with the tools of this environment."""
    sources = [str(ROOT / distribution) for distribution in DISTRIBUTIONS]
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(directory), *sources)


def declared_dependencies(distribution: str, *, with_extras: bool = False) -> list[str]:
    """What a distribution of ours asks for in its pyproject.toml, ours included."""
    text = (ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {}).values() if with_extras else ()
    return [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]


def wheelhouse(requirements: Iterable[str], *, constraints: Path | None = None) -> Path:
    """A cached directory with wheels of these requirements and all that they need; downloaded the first time."""
    wanted = sorted(requirements)
    pinned = constraints.read_text(encoding="utf-8") if constraints else ""
    environment = f"{sysconfig.get_platform()} {sys.implementation.cache_tag}"
    key = hashlib.sha256("\n".join([*wanted, pinned, environment]).encode()).hexdigest()[:16]
    restricted = ["--constraint", str(constraints)] if constraints else []

    def download(directory: Path) -> None:
        _pip("download", "--only-binary", ":all:", "--dest", str(directory), *restricted, *wanted)

    return cached_directory(f"wheelhouse-{key}", download)


class CleanVenv:
    """A virtual environment that holds what was installed into it and nothing else, not even pip."""

    def __init__(self, directory: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
        self.bin = directory / "bin"
        self._python = self.bin / "python"

    def install(self, *requirements: str, find_links: Sequence[Path]) -> None:
        links = [word for directory in find_links for word in ("--find-links", str(directory))]
        _pip("--python", str(self._python), "install", "--no-compile", "--no-index", *links, *requirements)

    def installed(self) -> set[str]:
        """The names of the distributions."""
        program = "from importlib.metadata import distributions\nfor d in distributions(): print(d.name)"
        return {name.lower().replace("_", "-") for name in self.python(program).split()}

    def python(self, program: str, *arguments: str) -> str:
        return self.run("python", "-I", "-c", program, *arguments)

    def run(self, command: str, *arguments: str) -> str:
        """What a command of the environment prints."""
        finished = subprocess.run(
            [self.bin / command, *arguments], capture_output=True, text=True, env=plain_environment(), check=False
        )
        assert finished.returncode == 0, f"{command} ended with {finished.returncode}:\n{finished.stderr}"
        return finished.stdout


def plain_environment(**more: str) -> dict[str, str]:
    """This process's environment without what would change how Python, Tiergate or a make inside make behaves."""
    foreign = ("PYTHON", "TIERGATE_", "MAKE", "MFLAGS", "ARGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | more


def _pip(*words: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, f"pip {' '.join(words)} failed:\n{finished.stdout}"
