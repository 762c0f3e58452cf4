"""docs/windows.md lists the table of aggregates as it is."""

from __future__ import annotations

from pathlib import Path

from tests.semantics.examples import AGGREGATE_ENTRIES

PAGE = Path(__file__).parents[3] / "docs" / "windows.md"


def test_the_page_lists_all_aggregates() -> None:
    lines = ["| aggregates | examples |", "|---|---|"]
    for entry in AGGREGATE_ENTRIES:
        names = ", ".join(f"`{name}`" for name in entry.names)
        lines.append(f"| {names} | {', '.join(f'`{example}`' for example in entry.examples)} |")
    assert "<!-- aggregates -->\n" + "\n".join(lines) + "\n<!-- end -->" in PAGE.read_text()
