"""One workload on several systems: run each, check its counts against DuckDB's, and only then compute speeds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
from rich.console import Console

from bench.observe import CLOSELY, end_family, observe
from bench.peers import duck
from bench.workloads.model import Outcome, Workload

BENCH = Path(__file__).parent
LONGEST = 2700  # seconds that one system may take
SHORTEST = 0.4  # seconds that must count for its CPU time and memory to be known


@dataclass(frozen=True)
class System:
    """`share` is the part of the ticks that a slow system gets of many queries; counts are checked for that part."""

    name: str
    title: str
    command: tuple[str, ...]  # behind the Python of the environment
    environment: str = ""  # of bench/peers/set-up; empty: ours
    share: float = 1.0
    note: str = ""


SYSTEMS = {
    system.name: system
    for system in (
        System("joint", "Watersmeet, joint plan", ("bench.peers", "joint")),
        System("naive", "Watersmeet, naive sharing", ("bench.peers", "naive")),
        System("alone", "Watersmeet, no sharing of work", ("bench.peers", "alone")),
        System("each", "Watersmeet, an engine a query", ("bench.peers", "each"), note="one engine after the other"),
        System("embedded", "Watersmeet, embedded", ("bench.peers", "embedded"), note="no Spark tasks"),
        System("partitions", "Watersmeet, P = 2", ("bench.peers", "partitions")),
        System("adaptive", "Watersmeet, adapting", ("bench.peers", "adaptive")),
        System("spark", "Spark's joins, a query each", ("bench.peers", "spark"), share=0.5),
        System("flink", "Flink, a job each", ("bench.peers.flink", "jobs"), "flink", note="CSV in and out"),
        System("flink-set", "Flink, one statement set", ("bench.peers.flink", "set"), "flink", note="CSV in and out"),
        System("flink-multi", "Flink, multi-join", ("bench.peers.flink", "multi"), "flink", note="no expiry of state"),
        System("pathway", "Pathway, one batch", ("bench.peers.pathway",), "pathway", note="CSV in, counts only"),
        System("duckdb-loop", "a loop of DuckDB", ("bench.peers", "duckdb-loop"), note="one thread, no recovery"),
        System("duckdb", "DuckDB, one batch", ("bench.peers", "duckdb"), note="the limit; counts only"),
    )
}


@dataclass(frozen=True)
class Figures:
    """What a report shows of a system. Speeds are of the ticks that count; memory is the most seen."""

    system: str
    title: str
    rows_per_second: float
    overall_rows_per_second: float  # a row counts once for each query that reads its stream
    cpu_seconds_per_million_rows: float | None  # None: the run was too short to be looked at often enough
    memory_bytes: int | None
    state_bytes: int | None
    results: int
    ticks: int
    seconds: float
    parts: dict[str, float]
    note: str


@dataclass(frozen=True)
class Problem:
    """Why there are no figures of a system."""

    title: str
    text: str


class Failed(Exception):
    """A system did not end well, or counted wrong."""


def compare(workload: Workload, systems: list[str]) -> Iterator[Figures | Problem]:
    """One system after the other: its figures if its counts are right, else what went wrong."""
    console = Console(stderr=True)
    for name in systems:
        system = SYSTEMS[name]
        console.print(f"{workload.name}: {system.title} …")
        # One query is cheap enough for all ticks: a system that gets fewer has less state, and looks faster than it is.
        share = system.share if len(workload.queries) > 1 else 1.0
        ticks = max(min(3, workload.ticks), int(workload.ticks * share))
        part = first_ticks(workload, ticks)
        expected = duck.counts(part, ticks)
        try:
            figures = measure(system, part, expected)
        except Failed as problem:
            console.print(f"  failed: {problem}", markup=False)
            yield Problem(system.title, str(problem))
            continue
        console.print(f"  {figures.rows_per_second:,.0f} rows/s; {figures.results:,} results, as DuckDB says")
        yield figures


def date_files(workload: Workload) -> None:
    """Give each tick's files a second of their own.

    Spark takes files in the order of their dates, in milliseconds. Small ones are written faster than that, and in
    another order their rows would be late.
    """
    first = int(time.time()) - workload.ticks
    for stream in workload.streams:
        for tick, path in enumerate(sorted(Path(workload.folder, stream.name).glob("*.parquet"))):
            os.utime(path, (first + tick, first + tick))


def first_ticks(workload: Workload, ticks: int) -> Workload:
    """The same workload with fewer ticks: the files are linked into another folder."""
    folder = Path(workload.folder).parent / f"first-{ticks}" / "in"
    if ticks == workload.ticks:
        return workload
    for stream in workload.streams:
        (folder / stream.name).mkdir(parents=True, exist_ok=True)
        for path in sorted(Path(workload.folder, stream.name).glob("*.parquet"))[:ticks]:
            if not (folder / stream.name / path.name).exists():
                os.link(path, folder / stream.name / path.name)
    rows = {name: counts[:ticks] for name, counts in workload.rows.items()}
    return replace(workload, folder=str(folder), rows=rows)


def measure(system: System, workload: Workload, expected: dict[str, int]) -> Figures:
    """Run a system, and compare its numbers of results with the expected ones."""
    scratch = Path(workload.folder).parent
    described = scratch / "workload.json"
    described.write_text(workload.to_json())
    python = sys.executable
    if system.environment:
        subprocess.run([BENCH / "peers" / "set-up", system.environment], check=True)
        python = str(BENCH / f".venv-{system.environment}" / "bin" / "python")
        _write_csv(workload, scratch / f"csv-{system.environment}", header=system.environment == "pathway")
    module, *arguments = system.command
    command = [python, "-m", module]
    # Our own systems are named first; the peers' modes come behind the workload.
    command += [*arguments, str(described)] if not system.environment else [str(described), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(BENCH.parent), "PATHWAY_THREADS": str(os.cpu_count())}
    with (scratch / "stdout").open("w+") as out, (scratch / "stderr").open("w+") as complaints:
        running = subprocess.Popen(command, stdout=out, stderr=complaints, text=True, env=environment)
        state = scratch / "flink-state" if system.environment == "flink" else None
        seen, looking = observe(running, state, CLOSELY)
        try:
            running.wait(LONGEST)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end within {LONGEST} s") from None
        finally:
            end_family(running)
            looking.join()
        out.seek(0)
        complaints.seek(0)
        lines = [line for line in out.read().splitlines() if line.startswith("{")]
        if running.returncode or not lines:
            raise Failed(f"ended with code {running.returncode}:\n{complaints.read()[-3000:]}")
    for folder in ("flink-out", "flink-state"):
        shutil.rmtree(scratch / folder, ignore_errors=True)
    outcome = Outcome(**json.loads(lines[-1]))
    if outcome.results != expected:
        raise Failed(f"wrong number of results: {outcome.results}, and DuckDB says {expected}")
    counted = workload.counted(outcome.skipped)
    rows = sum(counted.values())
    overall = sum(counted[stream] for query in workload.queries for stream in {table.stream for table in query.tables})
    cpu = sum(seen.cpu_within(begin, end) for begin, end in outcome.spans)
    long_enough = outcome.seconds >= SHORTEST
    return Figures(
        system=system.name,
        title=system.title,
        rows_per_second=rows / outcome.seconds,
        overall_rows_per_second=overall / outcome.seconds,
        cpu_seconds_per_million_rows=cpu / rows * 1e6 if long_enough else None,
        memory_bytes=seen.memory if long_enough else None,
        state_bytes=outcome.state_bytes if outcome.state_bytes is not None else (seen.files or None),
        results=sum(outcome.results.values()),
        ticks=workload.ticks,
        seconds=outcome.seconds,
        parts=outcome.parts,
        note=system.note,
    )


def _write_csv(workload: Workload, folder: Path, header: bool) -> None:
    """One file a stream, in the order of arrival: Flink's watermarks need that order."""
    if folder.exists():
        return
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for stream in workload.streams:
        (folder / stream.name).mkdir(parents=True)
        # Headed columns have a prefix: Pathway keeps `id` for itself.
        columns = ", ".join(
            f"{f'epoch_us({name})' if kind == 'timestamp' else name} AS c_{name}"
            for name, kind in stream.columns.items()
        )
        connection.execute(
            f"COPY (SELECT {columns} FROM '{workload.folder}/{stream.name}/*.parquet' ORDER BY ts) "
            f"TO '{folder / stream.name / 'all.csv'}' (HEADER {header})"
        )
