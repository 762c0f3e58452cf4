"""`watersmeet plans` on a home where nothing runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.commands import command
from watersmeet.adapt.decisions import Decision, decisions, record
from watersmeet.home import layout

START = Decision(0, 0, "start", "the engine started; queries: 1", True, "v1", 7000.0, searcher="exact")
CHANGE = Decision(
    40, 2, "statistics", "s.b = t.b finds 80 times fewer partners", True, "v2", 120.0, 9000.0, 8880.0, 50.0,
    "improve", 0.3, 2.0, 900.0, ("s⋈t",),
)  # fmt: skip


def plans(*arguments: str) -> tuple[int, str]:
    done = command("plans", *arguments)
    return done.exit_code, done.output


def test_the_history_is_a_table_and_json(tmp_path: Path) -> None:
    for one in (START, CHANGE):
        record(tmp_path, one)
    code, shown = plans("--home", str(tmp_path))
    assert code == 0
    for part in ("80 times", "9,000", "120", "8,880", "s⋈t", "2.0 / 900.0", "improve"):
        assert part in shown, part
    code, shown = plans("--home", str(tmp_path), "--format", "json")
    assert code == 0
    assert [one["adopted"] for one in json.loads(shown)] == [True, True]


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    record(tmp_path, START)
    with (tmp_path / layout.PLANS).open("a") as file:
        file.write('{"tick": 3, "epo')
    assert decisions(tmp_path) == [START]
    record(tmp_path, CHANGE)
    assert decisions(tmp_path) == [START, CHANGE]


def test_wrong_usage_is_explained(tmp_path: Path) -> None:
    assert plans("--home", str(tmp_path)) == (0, f"{tmp_path} has no plan yet\n")
    code, shown = plans("--home", str(tmp_path / "nowhere"))
    assert code == 1 and "does not exist" in shown
    code, shown = plans("--home", str(tmp_path), "--format", "xml")
    assert code == 2 and "xml" in shown
