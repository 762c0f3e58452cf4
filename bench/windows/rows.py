"""A windowed join that gives rows: Watersmeet in each of its classes, a loop of DuckDB, and Flink's window join."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.research import FORM
from bench.windows.ads import answers_of_loop, compare_with_loop, counted_rows, ours, results_of
from bench.windows.advertising import Question
from bench.windows.advertising_rows import write_rows
from bench.windows.flink_beside import answers_of_flink, closed_by_flink
from bench.windows.running import Run
from watersmeet.model.forms import PairRows, TaskSql, WindowSql

FORMS = ("", TaskSql.kind, PairRows.kind, WindowSql.kind)  # the first: the planner chooses


def measured(folder: Path, question: Question, ticks: int, rows: int, skip: int, peers: list[str]) -> list[Run]:
    """All results are compared with those of the loop. Of `rows`, a quarter are clicks."""
    write_rows(folder / "in", ticks, rows * 3 // 4)
    counted, found = counted_rows(folder / "in", (question,), skip, ticks), []
    by_loop = answers_of_loop(folder, (question,), ticks, skip, counted)
    for kind in FORMS:
        place = folder / (kind or "chosen").replace(" ", "-")
        place.mkdir()
        options = {FORM: kind, "adaptive": "off"} if kind else {}
        run = ours(place / "home", folder / "in", (question,), skip, counted, **options)
        compare_with_loop(folder, question, results_of(place / "home", question))
        found.append(replace(run, system=f"Watersmeet, class {kind}" if kind else run.system))
    if "flink" in peers:
        found.append(answers_of_flink(folder, (question,), ticks, counted_rows(folder / "in", (question,), 0, ticks)))
        compare_with_loop(folder, question, closed_by_flink(folder, question, ticks), ticks)
    return [*found[: len(FORMS)], by_loop, *found[len(FORMS) :]]
