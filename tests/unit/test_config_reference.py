"""The page of the docs that is made from the settings."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tiergate_server.config import load_config
from tiergate_server.config.reference import reference
from tiergate_server.config.schema import settings

_ROOT = Path(__file__).parents[2]


def test_reference_in_the_docs_is_up_to_date() -> None:
    page = (_ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == reference(), "run `make docs`"


def test_reference_has_a_row_for_every_setting() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [setting.key for setting in settings()]
    assert all(row.count("|") == 6 for row in rows)


def test_example_of_the_reference_is_a_valid_configuration(tmp_path: Path) -> None:
    example = reference().split("```toml\n")[1].split("```")[0]
    file = tmp_path / "example.toml"
    file.write_text(example, encoding="utf-8")
    assert tomllib.loads(example)
    assert load_config(file=file, environment={}).segments.limits.uploads == 32
