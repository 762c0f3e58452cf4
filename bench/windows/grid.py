"""Few and many sliding aggregations by a key of few and many values, beside a loop of DuckDB over each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.scratch import in_scratch
from bench.windows.ads import CHECKED, answers_of_loop, compare_with_loop, counted_rows, ours, results_of
from bench.windows.advertising import aggregations_by_person
from bench.windows.advertising_rows import write_rows
from bench.windows.running import Run

_SHORT = 10  # queries, of which a tick takes some milliseconds
_TICKS, _SHORT_TICKS = 60, 400  # of which half count
_Cell = tuple[int, int, list[Run]]  # queries, keys, and the runs: ours, ours without result files, the loop


def measured(ticks: int, rows: int, counts: Sequence[int], keys: Sequence[int]) -> list[_Cell]:
    """`ticks`: of each run; 0: more where they are short, because a JVM compiles itself for some seconds."""

    def runs(count: int, keys: int) -> list[Run]:
        chosen = ticks or (_SHORT_TICKS if count <= _SHORT else _TICKS)
        return in_scratch(partial(_cell, count=count, keys=keys, ticks=chosen, rows=rows))

    return [(count, each, runs(count, each)) for each in keys for count in counts]


def _cell(folder: Path, count: int, keys: int, ticks: int, rows: int) -> list[Run]:
    questions, skip = aggregations_by_person(count, keys), ticks // 2
    write_rows(folder / "in", ticks, rows, persons=keys)
    counted = counted_rows(folder / "in", questions, skip, ticks)
    loop = answers_of_loop(folder, questions, ticks, skip, counted)
    found = ours(folder / "home", folder / "in", questions, skip, counted)
    for each in questions[:: max(1, count // CHECKED)]:
        compare_with_loop(folder, each, results_of(folder / "home", each))
    counting = tuple(replace(each, only_counts=True) for each in questions)
    return [found, replace(ours(folder / "counts", folder / "in", counting, skip, counted), note="counts"), loop]


def show(found: Sequence[_Cell], rows: int) -> list[dict[str, Any]]:
    """The CPU time by queries and keys, and that of the loop as a multiple of ours."""
    table = Table(title=f"sliding aggregations, {rows:,} rows per tick: CPU s per million rows")
    for column in ("queries", "keys", "Watersmeet", "without files", "loop", "÷ ours", "÷ without files", "state"):
        table.add_column(column, justify="right")
    for count, keys, (whole, counts, loop) in found:
        seconds = [one.cpu_per_million for one in (whole, counts, loop)]
        ratios = [f"{seconds[2] / one:.2f} ×" for one in seconds[:2]]
        state = f"{(whole.state_bytes or 0) / 1e6:,.1f} MB"
        table.add_row(f"{count:,}", f"{keys:,}", *(f"{one:.2f}" for one in seconds), *ratios, state)
    Console(width=None if Console().is_terminal else 140).print(table)
    return [
        {"keys": keys, **asdict(one), "cpu_per_million": one.cpu_per_million} for _, keys, runs in found for one in runs
    ]
