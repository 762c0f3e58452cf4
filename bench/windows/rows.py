"""A windowed join that gives rows: Watersmeet in each of its classes, a loop of DuckDB, and Flink's window join."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb

from bench.comparing import BENCH
from bench.research import FORM
from bench.windows.ads import answers_of_loop, compare_results, counted_rows, ours
from bench.windows.advertising import MICROS, Question
from bench.windows.advertising_rows import write_rows
from bench.windows.running import Run, peer
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
        compare_results(
            question.name, f"{place}/home/results/{question.name}/*.parquet", f"{folder}/loop/{question.name}/*.parquet"
        )
        found.append(replace(run, system=f"Watersmeet, class {kind}" if kind else run.system))
    return [*found, by_loop, *([_flink(folder, question, ticks)] if "flink" in peers else [])]


def _flink(folder: Path, question: Question, ticks: int) -> Run:
    columns = {"impressions": "epoch_us(ts), id", "clicks": "epoch_us(ts), impression, cost"}
    with duckdb.connect() as connection:
        for name, listed in columns.items():
            (folder / "csv" / name).mkdir(parents=True)
            for file in sorted((folder / "in" / name).glob("*.parquet")):
                target = folder / "csv" / name / f"{file.stem}.csv"
                connection.execute(f"COPY (SELECT {listed} FROM '{file}') TO '{target}' (HEADER false)")
    described = {"folder": str(folder / "csv"), "ticks": ticks, "name": question.name, "text": question.flink}
    python = BENCH / ".venv-flink" / "bin" / "python"
    printed, observed = peer(
        [str(python), "-m", "bench.windows.flink_join_peer"], json.dumps(described), folder / "flink"
    )
    began, ended = json.loads(printed)
    read = f"read_csv('{folder}/flink/{question.name}/*', columns = {{'w': 'BIGINT', 'k': 'BIGINT', 'v': 'BIGINT'}})"
    closed = f"WHERE w + {question.range * MICROS} < {ticks * MICROS}"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT make_timestamp(w) AS w, k, v FROM {read} {closed}) TO '{folder}/flink.parquet'"
        )
    compare_results(question.name, f"{folder}/flink.parquet", f"{folder}/loop/{question.name}/*.parquet")
    return Run(
        system="Flink, window join",
        cpu=observed.cpu_within(began, ended),
        seconds=ended - began,
        rows=counted_rows(folder / "in", (question,), 0, ticks),
        results=0,
        note="CSV in and out",
        memory_bytes=observed.memory,
    )
