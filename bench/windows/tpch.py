"""SASPAR's fourteen queries of TPC-H as windowed queries: all in one engine, and an engine for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.pipeline import run_pipeline
from bench.windows.tpch_rows import Sizes, by_tick, tables
from bench.workloads.windowed_texts import WindowedText, declarations, windowed_texts

MINUTE = 60_000_000
LENGTH = 5  # minutes of a window; one begins every minute, and that is a tick
GRID = f"{LENGTH} MINUTES SLIDE 1 MINUTE"
WARM_UP = LENGTH + 2  # ticks that do not count: the first windows have few rows


@dataclass(frozen=True)
class Ran:
    """`cpu` seconds of all processes and `seconds` by the clock, of the ticks that count and of all with the start."""

    name: str
    kind: str
    cpu: float
    seconds: float
    whole_cpu: float
    whole_seconds: float
    results: int


def measured(folder: Path, ticks: int, orders: int) -> list[dict[str, Any]]:
    """`orders` of a window. All engines read the same files, one for each tick and stream."""
    rows = tables(Sizes.of(LENGTH * MINUTE, MINUTE, orders), 0, ticks * MINUTE)
    for number, pieces in enumerate(by_tick(rows, range(0, (ticks + 1) * MINUTE, MINUTE))):
        for name, piece in pieces.items():
            (folder / "in" / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(piece, folder / "in" / name / f"{number:06d}.parquet")
    texts = windowed_texts("tpch", GRID)
    found = [_run(folder, "together", texts)]
    for name, text in texts.items():
        found.append(_run(folder, name, {name: text}))
        _compare(folder, name, text)
    return [asdict(each) for each in found]


def _run(folder: Path, name: str, texts: dict[str, WindowedText]) -> Ran:
    used = {stream for text in texts.values() for stream in text.query.streams}
    script = declarations("tpch", folder / "in", " WITH (maxFilesPerTrigger = 1)", used)
    script += "".join(f"CREATE QUERY {query} AS {text.sql};\n" for query, text in texts.items())
    ran = run_pipeline(script, folder / name)
    last = len(ran.ended) - WARM_UP
    kind = next(iter(texts.values())).query.form.kind if len(texts) == 1 else ""
    cpu, seconds = ran.cpu_seconds_per_tick(last) * last, ran.seconds_per_tick(last) * last
    began, ended = ran.observed.at[0], ran.ended[-1]
    return Ran(
        name=name,
        kind=kind,
        cpu=cpu,
        seconds=seconds,
        whole_cpu=ran.observed.cpu_within(began, ended),
        whole_seconds=ended - began,
        results=ran.results,
    )


def _compare(folder: Path, name: str, text: WindowedText) -> None:
    """The same results from both engines as from DuckDB, in every window that is closed."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for stream in text.query.streams:
            connection.execute(f"CREATE TABLE all_{stream} AS FROM '{folder}/in/{stream}/*.parquet'")
        expected: list[tuple[Any, ...]] = []
        for start in _closed(connection, text):
            for stream in text.query.streams:
                inside = f"epoch_us(ts) >= {start} AND epoch_us(ts) < {text.query.grid.end(start)}"
                connection.execute(f"CREATE OR REPLACE TEMP VIEW {stream} AS FROM all_{stream} WHERE {inside}")
            expected += connection.execute(text.duckdb).fetchall()
        for engine in ("together", name):
            files = f"{folder}/{engine}/results/{name}/*.parquet"
            found = connection.sql(f"FROM '{files}'").fetchall()
            assert _sorted(found) == _sorted(expected), f"{name} {engine}: {len(found)} rows, not {len(expected)}"


def _closed(connection: duckdb.DuckDBPyConnection, text: WindowedText) -> Iterable[int]:
    newest = [
        connection.execute(f"SELECT epoch_us(max(ts)) FROM all_{stream}").fetchall()[0][0]
        for stream in text.query.streams
    ]
    grid = text.query.grid
    return range(grid.first(0), min(newest) - grid.range + 1, grid.slide)


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def show(found: list[dict[str, Any]], orders: int) -> None:
    together, *alone = found
    table = Table(title=f"TPC-H, windows of {GRID}, {orders:,} orders in each")
    for column in ("engine", "class", "CPU s", "s", "CPU s with the start", "s with the start", "results"):
        table.add_column(column, justify="left" if column in ("engine", "class") else "right")
    measures = ("cpu", "seconds", "whole_cpu", "whole_seconds")
    total = {name: sum(each[name] for each in alone) for name in measures}
    for each in (together, *alone):
        figures = [f"{each[name]:.1f}" for name in measures]
        table.add_row(each["name"], each["kind"], *figures, f"{each['results']:,}")
    table.add_row("sum of those alone", "", *(f"{total[name]:.1f}" for name in measures))
    table.add_row("÷ together", "", *(f"{total[name] / together[name]:.2f} ×" for name in measures))
    Console(width=None if Console().is_terminal else 140).print(table)
