"""What docs/bad-input.md says is named by tests: each line of its tables, and each name is a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lines() -> list[str]:
    page = (ROOT / "docs" / "bad-input.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    return [row for row in rows if "what happens" not in row.split("|")[2] and "(#missing-columns)" not in row]


def test_each_line_about_bad_input_names_its_tests() -> None:
    texts = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    known = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert len(lines()) > 40
    for line in lines():
        named = re.search(r"<!-- ([\w ]+) -->", line)
        assert named, line
        assert set(named[1].split()) <= known, line
