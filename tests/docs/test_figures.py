"""Tables of measured figures say when they were measured and by which command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
UNIT = re.compile(r"\d (×|M|k|µs|ms|s|MB)\b|×|\b(CPU s|rows/s|seconds|tuples|ms)\b")
NUMBER = re.compile(r"\**\d[\d,.]*")
DATE = re.compile(r"Measured 20\d\d-\d\d-\d\d")
COMMAND = re.compile(r"`(bench/run [a-z]|\./run python -m bench)")


def sections(text: str) -> list[str]:
    return re.split(r"(?m)^#+ ", text)


def has_figures(section: str) -> bool:
    """Whether it has a table with a unit in which several cells begin with a number."""
    rows = [line for line in section.splitlines() if line.startswith("|")]
    numbers = sum(bool(NUMBER.match(cell.strip())) for row in rows for cell in row.split("|"))
    return numbers >= 3 and any(UNIT.search(row) for row in rows)


# papers.md refers to what other pages have measured; its numbers are those of sections and figures.
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name != "papers.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_table_of_figures_has_a_date_and_a_command(page: Path) -> None:
    for section in sections(page.read_text()):
        if has_figures(section):
            title = section.splitlines()[0]
            assert DATE.search(section), f"{page.name}, {title}: no date of the measurement"
            assert COMMAND.search(section), f"{page.name}, {title}: no command that measures it"


def test_a_table_of_figures_is_recognized() -> None:
    assert has_figures("Speed\n\n| a | 2 s |\n| b | 3.5 × |\n| c | 1,000 rows/s |\n")
    assert has_figures("Speed\n\n| keys | CPU s |\n| 1 | 0.5 |\n| 10 | 0.7 |\n")
    assert not has_figures("Options\n\n| a | seconds |\n| b | `16` aliases |\n")
