"""Windows at the cardinalities that users have: the advertising workload, beside a loop of DuckDB over each window."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.pipeline import Measured, run_pipeline
from bench.windows.advertising import MICROS, Question, script
from bench.windows.advertising_rows import write_rows
from bench.windows.flink_beside import answers_of_flink, closed_by_flink
from bench.windows.running import Run, peer
from watersmeet.adapt.decisions import decisions
from watersmeet.home import layout

CHECKED = 12  # queries whose results are compared
FLINK_TICKS = 40  # it is slow; the longest windows last 30


def measured(
    folder: Path,
    questions: tuple[Question, ...],
    ticks: int,
    rows: int,
    skip: int,
    peers: Sequence[str] = (),
    fan_out: int = 1,
    known: bool = True,
) -> list[Run]:
    """Watersmeet, the loop and perhaps Flink over the same files; all results of some queries are compared."""
    write_rows(folder / "in", ticks, rows, fan_out=fan_out)
    counted = counted_rows(folder / "in", questions, skip, ticks)
    by_loop = answers_of_loop(folder, questions, ticks, skip, counted)
    if known and any(each.joins for each in questions):  # in the life before, an engine would have measured this
        told = {"statistics": known_statistics(folder / "in", max(each.range for each in questions))}
        (folder / "home").mkdir()
        (folder / "home" / layout.STATISTICS).write_text(json.dumps(told))
    found = ours(folder / "home", folder / "in", questions, skip, counted)
    for each in questions[:: max(1, len(questions) // CHECKED)]:
        compare_with_loop(folder, each, results_of(folder / "home", each))
    if "flink" not in peers:
        return [found, by_loop]
    ticks = min(ticks, FLINK_TICKS)
    by_flink = answers_of_flink(folder, questions, ticks, counted_rows(folder / "in", questions, 0, ticks))
    for each in questions[:: max(1, len(questions) // CHECKED)]:
        compare_with_loop(folder, each, closed_by_flink(folder, each, ticks), ticks)
    return [found, by_loop, by_flink]


def counted_rows(folder: Path, questions: tuple[Question, ...], skip: int, ticks: int) -> int:
    names = ["impressions", *(["clicks"] if any(each.joins for each in questions) else [])]
    files = [str(folder / name / f"{tick:06d}.parquet") for name in names for tick in range(skip, ticks)]
    return sum(pq.read_metadata(file).num_rows for file in files)


def ours(home: Path, rows_of: Path, questions: tuple[Question, ...], skip: int, rows: int, **options: str) -> Run:
    found = run_pipeline(script(questions, rows_of), home, **options)
    last = len(found.ended) - skip
    seconds = found.seconds_of_ticks(last)
    _tell_changes(home, found, rows_of, questions)
    return Run(
        system="Watersmeet",
        cpu=found.cpu_seconds_per_tick(last) * last,
        seconds=sum(seconds),
        rows=rows,
        results=found.results,
        state_bytes=found.state_bytes,
        queries=len(questions),
        memory_bytes=found.observed.memory,
        worst=max(seconds) / statistics.median(seconds),
    )


def _tell_changes(home: Path, found: Measured, folder: Path, questions: tuple[Question, ...]) -> None:
    """Print when queries changed their class, and what the ticks before and since then took."""
    changes = [each for each in decisions(home) if ": from " in each.reason]
    ends = [1, *(each.tick for each in decisions(home) if each.tick > 1), len(found.ended)]  # it starts in the first
    for begin, end in pairwise(ends if changes else ()):
        rows = counted_rows(folder, questions, begin, end)
        if rows:
            cpu = found.observed.cpu_within(found.ended[begin - 1], found.ended[end - 1])
            print(f"ticks {begin + 1} to {end}: {cpu / rows * 1e6:.2f} CPU s per million rows")
    for each in changes:
        print(f"after tick {each.tick}: {each.reason}")


def known_statistics(folder: Path, seconds: int) -> dict[str, Any]:
    """Rows of each stream in its window, and the share of pairs that join."""
    names = ("impressions", "clicks")
    with duckdb.connect() as connection:
        for name in names:
            connection.execute(f"CREATE VIEW {name} AS FROM '{folder}/{name}/*.parquet'")
        counts = "SELECT count(*) FROM impressions UNION ALL SELECT count(*) FROM clicks"
        join = "SELECT count(*) FROM impressions JOIN clicks ON id = impression"
        rows = [count for (count,) in connection.execute(counts).fetchall()]
        ((pairs,),) = connection.execute(join).fetchall()
    ticks = len(list((folder / "clicks").glob("*.parquet")))
    arrivals = {name: count / ticks for name, count in zip(names, rows, strict=True)}
    return {
        "sizes": {name: each * seconds for name, each in arrivals.items()},
        "arrivals": arrivals,
        "progress": dict.fromkeys(names, 1.0),
        "selectivities": [
            {"left": "impressions.id", "right": "clicks.impression", "value": pairs / (rows[0] * rows[1])}
        ],
    }


def answers_of_loop(folder: Path, questions: tuple[Question, ...], ticks: int, skip: int, rows: int) -> Run:
    described = {"folder": str(folder / "in"), "ticks": ticks, "questions": [asdict(each) for each in questions]}
    printed, observed = peer([sys.executable, "-m", "bench.windows.loop_peer"], json.dumps(described), folder / "loop")
    ended = json.loads(printed)
    seconds = [after - before for before, after in zip(ended[skip - 1 :], ended[skip:], strict=False)]
    return Run(
        system="a loop of DuckDB",
        cpu=observed.cpu_within(ended[skip - 1], ended[-1]),
        seconds=sum(seconds),
        rows=rows,
        results=0,
        queries=len(questions),
        note="one thread",
        memory_bytes=observed.memory,
        worst=max(seconds) / statistics.median(seconds),
    )


def results_of(home: Path, question: Question) -> str:
    return f"SELECT * FROM read_parquet('{home}/results/{question.name}/*.parquet')"


def compare_with_loop(folder: Path, question: Question, results: str, ticks: int | None = None) -> None:
    """Rows as multisets; sums and means of integers are exact in both. `ticks`: of windows that close before."""
    loop = f"SELECT * FROM read_parquet('{folder}/loop/{question.name}/*.parquet')"
    if ticks is not None:
        loop += f" WHERE epoch_us(w) + {question.range * MICROS} < {ticks * MICROS}"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = "epoch_us(w) AS w, k::VARCHAR AS k, round(v::DOUBLE, 6) AS v"
        digest = "SELECT count(*), sum(hash(w, k, v)::HUGEINT) FROM (SELECT {} FROM ({}))"
        found, expected = (connection.execute(digest.format(columns, each)).fetchall() for each in (results, loop))
        assert found == expected, f"{question.name}: {found} instead of {expected}"


def show(title: str, found: list[Run]) -> list[dict[str, Any]]:
    table = Table(title=title)
    columns = (
        "system",
        "queries",
        "rows/s",
        "CPU s per million rows",
        "memory",
        "state",
        "worst tick ÷ median",
        "note",
    )
    for column in columns:
        table.add_column(column, justify="left" if column in ("system", "note") else "right")
    for one in found:
        table.add_row(
            one.system,
            f"{one.queries:,}",
            f"{one.rows / one.seconds:,.0f}",
            f"{one.cpu_per_million:.2f}",
            f"{one.memory_bytes / 1e6:,.0f} MB",
            "" if one.state_bytes is None else f"{one.state_bytes / 1e6:,.1f} MB",
            f"{one.worst:.1f} ×",
            one.note,
        )
    console = Console(width=None if Console().is_terminal else 140)
    console.print(table)
    first, *others = found
    for one in others:
        print(f"{one.system} needs {one.cpu_per_million / first.cpu_per_million:.2f} × our CPU time")
    return [{**asdict(one), "cpu_per_million": one.cpu_per_million} for one in found]
