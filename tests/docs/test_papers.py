"""docs/papers.md names what exists, and leaves out no section, figure or table of a paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from bench.__main__ import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
STATES = {"implemented", "replaced", "not built yet", "never"}

# Of each paper: its sections, and what it numbers. Ranges are of numbers or of letters: 1-6, 7a-d.
SECTIONS = {
    "CLASH": "I-A III IV IV-A V V-1 V-2 V-A V-B VI-A VI-B VII-A VII-B VII-C VII-D",
    "MultiStream": "I-A III IV IV-A IV-B IV-C IV-D IV-E V V-A V-B V-C V-D V-E",
    "AJoin": "1 2 3 4 5 6 7 7.1 7.2",
    "SASPAR": "I II-A II-B II-C II-D III III-A IV V-A V-B V-C",
    "MJoin": "2.1 2.2 2.3 2.4 2.5 2.6 2.7 3.1 3.2 3.3 3.4 3.5 3.6 A.1 A.2",
}
NUMBERED = {
    "CLASH": {"Fig.": "1-6 7a-d 8a-b 9a-f", "Alg.": "1-4"},
    "MultiStream": {"Fig.": "1-7 8a-l"},
    "AJoin": {"Fig.": "1-6 7a-b 8-11 12a-b 13-17 18a-b 19 20a-d 21 22a-b"},
    "SASPAR": {"Fig.": "1-7 8a-b 9-11 12a-b 13", "Table": "I", "Listing": "1-2", "Alg.": "1"},
    "MJoin": {"Fig.": "1-17", "Table": "1-4"},
}

Row = list[str]


@cache
def text() -> str:
    return PAGE.read_text()


def rows(paper: str) -> list[Row]:
    """The cells of all tables in the section of a paper, without headings."""
    section = text().split(f"\n## {paper}\n")[1].split("\n## ")[0]
    found = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in section.splitlines() if line[:1] == "|"]
    return [row for row in found if not set(row[0]) <= set("-|") and row[0] not in ("section", "figure")]


def ideas(paper: str) -> list[Row]:
    return [row for row in rows(paper) if len(row) == 4]


def each_of(ranges: str) -> Iterator[str]:
    """1-3 7a-b: 1, 2, 3, 7a, 7b."""
    for one in ranges.split():
        first, _, last = one.partition("-")
        if not last:
            yield first
        elif last.isdigit():
            yield from map(str, range(int(first), int(last) + 1))
        else:
            yield from (f"{first[:-1]}{chr(letter)}" for letter in range(ord(first[-1]), ord(last) + 1))


def named() -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", text())


@pytest.mark.parametrize("paper", SECTIONS)
def test_no_section_is_left_out_and_each_row_has_a_state(paper: str) -> None:
    assert {row[0] for row in ideas(paper)} == set(SECTIONS[paper].split())
    assert {row[2] for row in ideas(paper)} <= STATES


@pytest.mark.parametrize("paper", NUMBERED)
def test_no_figure_or_table_is_left_out(paper: str) -> None:
    expected = [f"{kind} {number}" for kind, numbers in NUMBERED[paper].items() for number in each_of(numbers)]
    assert sorted(row[0] for row in rows(paper) if len(row) == 3) == sorted(expected)


@pytest.mark.parametrize("paper", SECTIONS)
def test_states_are_shown_to_be_true(paper: str) -> None:
    """What is implemented has code, and a test or benchmark; what is replaced has a page or decision with reasons."""
    for section, idea, state, where in ideas(paper):
        if state == "implemented":
            assert re.search(r"`(watersmeet|bench|tests)/[\w/]+\.py", where), (section, idea)
            assert re.search(r"`(tests/|bench/run |python -m bench)", where), (section, idea)
        elif state in ("replaced", "never"):
            assert re.search(r"\[\w+\]", where), (section, idea)


def test_every_file_exists() -> None:
    paths = [name.split("::")[0] for name in named() if re.match(r"(watersmeet|tests|bench|docs)/\S+$", name)]
    assert len(paths) > 100
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_every_test_exists() -> None:
    tests = [name.split("::") for name in named() if re.match(r"tests/\S+::", name)]
    assert tests
    missing = [
        (path, name) for path, name in tests if not re.search(rf"^ *def {name}\(", (ROOT / path).read_text(), re.M)
    ]
    assert not missing


def test_every_command_exists() -> None:
    workloads = {words[1] for words in map(str.split, named()) if words[0] == "bench/run"}
    assert workloads
    assert workloads <= set(get_command(app).commands)  # type: ignore[attr-defined]
    modules = {words[2] for words in map(str.split, named()) if words[:2] == ["python", "-m"] and len(words[2]) > 1}
    assert modules
    for module in modules:
        found = find_spec(module)
        assert found, module
        assert not found.submodule_search_locations or find_spec(f"{module}.__main__"), module


def test_every_link_leads_to_a_page() -> None:
    definition = re.compile(r"^\[(\w+)\]: (\S+)$", re.M)
    targets = dict(definition.findall(text()))
    used = set(re.findall(r"\[(\w+)\]", definition.sub("", text())))
    assert used == set(targets)
    assert not [target for target in targets.values() if not (PAGE.parent / target).is_file()]


def test_lines_of_prose_are_short() -> None:
    assert not [line for line in text().splitlines() if len(line) > 120 and not line.startswith("|")]
