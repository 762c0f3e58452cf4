"""One workload on one system: its CPU time, and its results compared with DuckDB's."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb

from bench.comparing import BENCH
from bench.observe import CLOSELY, Observed, end_family, observe
from bench.pipeline import run_pipeline
from bench.windows.workload import Workload

LONGEST = 900  # seconds that a system may take


@dataclass(frozen=True)
class Run:
    """`cpu` seconds of all processes, `seconds` by the clock, and input rows, of the ticks that count."""

    system: str
    cpu: float
    seconds: float
    rows: int
    results: int
    state_bytes: int | None = None
    queries: int = 1
    note: str = ""
    memory_bytes: int = 0  # the most of all processes
    worst: float = 0.0  # the longest tick, against the median

    @property
    def cpu_per_million(self) -> float:
        return self.cpu / self.rows * 1e6


def ours(workload: Workload, home: Path, skip: int, checked: int = 10) -> Run:
    """`watersmeet run --once`, as a person runs it."""
    stream = (
        "CREATE STREAM r (ts TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY ts "
        f"FROM parquet '{workload.folder}/r' WITH (maxFilesPerTrigger = 1);\n"
    )
    script = stream + "".join(each.watersmeet() for each in workload.aggregations)
    measured = run_pipeline(script, home)
    last = len(measured.ended) - skip
    results = {
        each.name: f"SELECT epoch_us(w) AS w, k, v::DOUBLE AS v FROM '{home}/results/{each.name}/*.parquet'"
        for each in workload.aggregations
    }
    compare(workload, results, checked)
    return Run(
        system="Watersmeet",
        cpu=measured.cpu_seconds_per_tick(last) * last,
        seconds=measured.seconds_per_tick(last) * last,
        rows=last * workload.rows,
        results=measured.results,
        state_bytes=measured.state_bytes,
        queries=len(workload.aggregations),
    )


def spark(workload: Workload, out: Path, skip: int) -> Run:
    """The mean of several queries by themselves: nothing that they do is shared."""
    printed, observed = peer([sys.executable, "-m", "bench.windows.spark_peer"], workload.to_json(), out)
    compare(
        workload, {each.name: f"SELECT w, k, v FROM '{out}/{each.name}/*.parquet'" for each in workload.aggregations}
    )
    spans = [(ended[skip - 1], ended[workload.ticks - 1]) for ended in json.loads(printed)]
    cpu = sum(observed.cpu_within(*span) for span in spans)
    rows = (workload.ticks - skip) * workload.rows
    return Run(
        system="Spark, window()",
        cpu=cpu,
        seconds=sum(end - begin for begin, end in spans),
        rows=rows,
        results=0,
        state_bytes=None,
        queries=len(spans),
    )


def flink(workload: Workload, out: Path) -> Run:
    python = BENCH / ".venv-flink" / "bin" / "python"
    printed, observed = peer([str(python), "-m", "bench.windows.flink_peer"], workload.to_json(), out)
    columns = "columns = {'w': 'BIGINT', 'k': 'BIGINT', 'v': 'DOUBLE'}"
    results = {
        each.name: f"SELECT w, k, v FROM read_csv('{out}/{each.name}/*', {columns}, header = false) "
        f"WHERE w + {each.range * 1_000_000} <= {workload.newest}"
        for each in workload.aggregations
    }
    compare(workload, results)
    begin, end = json.loads(printed)
    cpu = observed.cpu_within(begin, end)
    return Run(
        system="Flink, HOP",
        cpu=cpu,
        seconds=end - begin,
        rows=workload.ticks * workload.rows,
        results=0,
        state_bytes=None,
        queries=len(workload.aggregations),
        note="CSV in and out",
    )


def peer(command: list[str], workload: str, out: Path) -> tuple[str, Observed]:
    """Run a system in a process of its own; what it printed last, and its CPU time."""
    out.mkdir()
    path = out / "workload.json"
    path.write_text(workload)
    environment = {**os.environ, "PYTHONPATH": str(BENCH.parent)}
    with (out / "complaints").open("w") as complaints:
        running = subprocess.Popen(
            [*command, str(path), str(out)], stdout=subprocess.PIPE, stderr=complaints, text=True, env=environment
        )
        observed, watching = observe(running, None, CLOSELY)
        try:
            printed, _ = running.communicate(timeout=LONGEST)
        finally:
            end_family(running)
        watching.join()
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{(out / 'complaints').read_text()[-3000:]}")
    return printed.splitlines()[-1], observed


def compare(workload: Workload, results: dict[str, str], most: int = 10) -> None:
    """The results of some aggregations, all windows of them, equal DuckDB's."""
    chosen = workload.aggregations[:: max(1, len(workload.aggregations) // most)]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE VIEW r AS FROM '{workload.folder}/r/*.parquet'")
        for each in chosen:
            digest = "SELECT count(*), sum(w::HUGEINT * (k + 1)), sum(v * (k % 97 + 1)), sum(v) FROM ({})"
            expected = connection.sql(digest.format(each.duckdb(workload.newest))).fetchall()[0]
            found = connection.sql(digest.format(results[each.name])).fetchall()[0]
            same = expected[:2] == found[:2] and all(
                math.isclose(one or 0, other or 0, rel_tol=1e-9)
                for one, other in zip(expected[2:], found[2:], strict=True)
            )
            assert same, f"{each}: {found} instead of {expected}"
