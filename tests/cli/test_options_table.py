"""docs/options.md lists every option as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.errors import ModelError
from watersmeet.io.sinks import check_sink
from watersmeet.model import Sink
from watersmeet.model.query import sink_formats
from watersmeet.options import user_options

PAGE = Path(__file__).parents[2] / "docs" / "options.md"


def table(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head and without code marks."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


def test_the_table_has_each_option_with_its_type_and_default() -> None:
    listed = {name: (kind, default) for name, kind, default, _ in table("Engine")}
    declared = {
        option.name: (type(option.default).__name__, str(option.default) or "empty") for option in user_options()
    }
    assert listed == declared


def test_each_option_of_the_table_has_a_meaning() -> None:
    assert all(meaning.endswith(".") for *_, meaning in table("Engine"))


@pytest.mark.parametrize("kind", sink_formats())
def test_the_table_has_the_options_of_each_sink(kind: str) -> None:
    listed = [row[1] for row in table("Sinks") if row[0] == kind]
    assert listed, f"{kind} is not in the table"
    options = sorted(name for name in listed if name)
    with pytest.raises(ModelError) as caught:
        check_sink("q", Sink(kind, "", (("no_such_option", "1"),)))
    assert caught.value.detail == f"Options: {', '.join(options) or 'none'}."
