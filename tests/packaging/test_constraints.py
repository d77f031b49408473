"""Versions are pinned in one sorted file that names no place to download from."""

from __future__ import annotations

import re

from support.wheels import DISTRIBUTIONS, ROOT, declared_dependencies

_LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_are_sorted_pins_and_nothing_else() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in _LINES)
    assert sorted(_LINES, key=str.lower) == _LINES


def test_everything_that_is_asked_for_by_name_is_pinned() -> None:
    pinned = {_normalised(line.partition("==")[0]) for line in _LINES}
    for_tests = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    asked = [line.partition(";")[0] for line in for_tests if not line.startswith("#")] + [
        "hatchling",
        "editables",
        "setuptools",
    ]
    for distribution in DISTRIBUTIONS:
        asked += [re.split(r"[\[<>=]", requirement)[0] for requirement in declared_dependencies(distribution)]
    assert {_normalised(name) for name in asked if not name.startswith("tiergate-")} <= pinned
