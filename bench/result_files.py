"""`bench/run result-files`: what the files of many queries cost, written in each tick or after `result_delay`.

The queries are those of the AJoin paper with filters, over few rows, so that most of a tick is writing files. In each
round every delay has a run of its own; the results of some queries are counted in their files, and compared with
DuckDB's.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from bench import ajoin
from bench.pipeline import run_pipeline
from bench.report import write_json
from bench.scratch import in_scratch
from watersmeet.home import layout

WARM_UP = 8  # ticks
CHECKED = 10  # queries
Run = dict[str, float]


def run(
    queries: int = 200,
    rows: Annotated[int, typer.Option(help="rows for each second and stream")] = 2000,
    ticks: int = 48,
    delays: Annotated[list[str], typer.Option("--delay", help="values of result_delay")] = ["0", "1 second"],  # noqa: B006
    rounds: int = 2,
) -> None:
    """CPU time of a tick of many queries with files, by result_delay."""
    found: dict[str, list[Run]] = {delay: [] for delay in delays}
    for number in range(rounds):
        for delay in delays if number % 2 else reversed(delays):
            one = in_scratch(partial(_measure, queries=queries, rows=rows, ticks=ticks, delay=delay))
            found[delay].append(one)
            print(f"round {number + 1}, result_delay={delay}: {one['cpu']:.3f} CPU s a tick", flush=True)
    table = Table("result_delay", "CPU s a tick", "seconds a tick", "files", title=f"{queries} queries with files")
    for delay, runs in found.items():
        middle = {figure: median(one[figure] for one in runs) for figure in runs[0]}
        table.add_row(delay, f"{middle['cpu']:.3f}", f"{middle['seconds']:.3f}", f"{middle['files']:,.0f}")
    Console().print(table)
    write_json("result-files", {"queries": queries, "rows": rows, "runs": found})


def _measure(folder: Path, queries: int, rows: int, ticks: int, delay: str) -> Run:
    ajoin.write_streams(folder / "in", ticks, rows)
    texts = ajoin.selects(queries)
    declared = "".join(f"CREATE QUERY q{at} AS {text};\n" for at, text in enumerate(texts))
    ours = run_pipeline(ajoin.streams_sql(folder / "in") + declared, folder / "home", result_delay=delay)
    chosen = sorted(random.Random(7).sample(range(queries), min(CHECKED, queries)))
    counted = [_rows(layout.results(folder / "home", f"q{at}")) for at in chosen]
    expected = ajoin.oracle(folder / "in", [texts[at] for at in chosen])
    assert counted == expected, f"results differ from DuckDB's: {counted} and {expected}"
    last = ticks - WARM_UP
    files = sum(1 for _ in (folder / "home" / layout.RESULTS).glob("*/0*.parquet"))
    return {"cpu": ours.cpu_seconds_per_tick(last), "seconds": ours.seconds_per_tick(last), "files": files}


def _rows(folder: Path) -> int:
    return sum(pq.ParquetFile(path).metadata.num_rows for path in folder.glob("*.parquet"))
