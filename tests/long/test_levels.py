"""`./run test-long`: ten thousand ticks, with a change of the queries every fifty, leave nothing behind that grows.

Memory, open files, files in the home and the sizes of logs are compared over time: those of the last fifth of the run
with those of the second. The times of ticks are only drawn, in docs/pictures/long-run.svg. At the end the results equal
those of DuckDB over the whole input. Bounds that take longer to be reached are lower here, see program.py."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import duckdb
import psutil
import pyarrow as pa
import pytest

from bench.charts import Panel, panels
from tests.long.feeding import AHEAD, STREAMS, WINDOW, Reader, Writer, committed, periods_read
from tests.support.processes import ROOT, environment, kill_tree
from tests.support.waiting import PATIENCE, eventually
from watersmeet.control.mailbox import Mailbox, Reply, Request
from watersmeet.home import layout

pytestmark = pytest.mark.long

EVERY = 50  # ticks from one change to the next
BREAKS = 10  # changes from one suspension to the next
TEMPORARY = 4  # queries that come and go, at a time
GROWTH = 1.25  # more than that from the second fifth of the run to the last is growth,
SPARE = 12  # but for a few files; sizes are in bytes
SAMPLE = 7  # of these many queries that came and went, one is compared with the oracle
SLICE = 200  # periods that the oracle joins at a time
DRAWN = 50  # points of a line
SMALL_FOLDERS = ("positions", "manifests", "orders")
PICTURE = ROOT / "docs" / "pictures" / "long-run.svg"

SCRIPT = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, period BIGINT) TIMESTAMP BY ts LATENESS 5 SECONDS"
    f" FROM parquet '{name}' WITH (maxFilesPerTrigger = 1);\n"
    for name in STREAMS
)
PAIR = "SELECT o.id AS o, p.id AS p, greatest(o.period, p.period) AS period FROM {0} o, {1} p WHERE o.k = p.k"
CHAIN = "SELECT o.id AS o, p.id AS p, c.id AS c FROM {0} o, {1} p, {2} c WHERE o.k = p.k AND p.k = c.k"
STANDING = {"pair": (PAIR, STREAMS[:2]), "chain": (CHAIN, STREAMS)}


def windowed(sql: str, streams: tuple[str, ...]) -> str:
    return sql.format(*(f"{name} [RANGE {WINDOW} SECONDS]" for name in streams))


def oracle(sql: str, streams: tuple[str, ...]) -> str:
    aliases = "opc"[: len(streams)]
    newest = f"greatest({', '.join(f'{alias}.ts' for alias in aliases)})"
    within = [f"{newest} - {alias}.ts <= INTERVAL {WINDOW} SECONDS" for alias in aliases]
    return " AND ".join([sql.format(*streams), *within])


def expected(tables: duckdb.DuckDBPyConnection, name: str, sql: str, streams: tuple[str, ...], periods: int) -> None:
    """Make a table of what DuckDB answers over the whole input, in slices: rows of a result are not far apart."""
    for begin in range(0, periods, SLICE):
        for stream in streams:
            chosen = f"period >= {begin - WINDOW - 1} AND period < {begin + SLICE}"
            run_sql(tables, f"CREATE OR REPLACE TABLE slice_{stream} AS FROM {stream} WHERE {chosen}")
        newest = f"greatest({', '.join(f'{alias}.period' for alias in 'opc'[: len(streams)])})"
        answers = f"{oracle(sql, tuple(f'slice_{stream}' for stream in streams))} AND {newest} >= {begin}"
        run_sql(tables, f"INSERT INTO {name} {answers}" if begin else f"CREATE TABLE {name} AS {answers}")


@dataclass
class Levels:
    """What is measured, by tick."""

    at: list[int] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)  # median time of a tick since the last look

    def add(self, tick: int, figures: dict[str, float], milliseconds: float) -> None:
        self.at.append(tick)
        self.milliseconds.append(milliseconds)
        for name in figures.keys() | self.figures.keys():
            before = self.figures.setdefault(name, [0.0] * (len(self.at) - 1))
            before.append(figures.get(name, 0.0))

    def fifths(self, name: str) -> tuple[float, float]:
        """The medians of the second and the last fifth of the run."""
        last = self.at[-1]
        values = list(zip(self.at, self.figures[name], strict=True))
        second = [value for tick, value in values if last / 5 <= tick < 2 * last / 5]
        return median(second), median(value for tick, value in values if tick >= 4 * last / 5)


FAR = 1 << 60


@dataclass
class Temporary:
    """A query that was added and dropped while files were read. The periods say when, as far as is known outside."""

    name: str
    limit: int
    backfill: bool
    earliest: int  # periods that had been read before it was requested
    added: int = 0  # periods that had been written when it was active
    dropped: int = FAR  # periods that had been read before it was requested to drop it
    latest: int = FAR  # periods that had been written when it was dropped


class LongRun:
    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.home = folder / "home"
        self.process = process
        self.writer = Writer(folder / "in")
        self.reader = Reader(self.home)
        self.levels = Levels()
        self.suspensions = 0
        self.temporary: list[Temporary] = []
        self._mailbox = Mailbox(self.home)
        self._outside = folder / "outside"
        self._logged = 0
        self._changes = 0

    def run(self, ticks: int) -> None:
        """Feed the engine until it has run that many ticks."""
        due = EVERY
        while (manifest := committed(self.home)).tick < ticks:
            assert self.process.poll() is None, "the engine has ended"
            read = periods_read(manifest)
            if self.writer.period - read < AHEAD:
                self.writer.write()
            else:
                time.sleep(0.02)
            if manifest.tick >= due:
                due += EVERY
                self._change(read)
                self.writer.delete_old(read)
                self.reader.read()
                self._measure(manifest.tick)

    def finish(self) -> None:
        eventually(lambda: periods_read(committed(self.home)) == self.writer.period, "rows were not read")
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        self.reader.read()

    # Changes ---------------------------------------------------------------------------------------

    def _change(self, read: int) -> None:
        number, self._changes = self._changes, self._changes + 1
        added = Temporary(f"temporary_{number}", 10 + 7 * number % 80, number % 3 == 0, read)
        condition = f"{windowed(PAIR, STREAMS[:2])} AND o.k < {added.limit}"
        statements = [f"CREATE QUERY {added.name} {'BACKFILL' if added.backfill else ''} AS {condition};"]
        standing = [query for query in self.temporary if query.latest == FAR]
        dropped = standing[0] if len(standing) >= TEMPORARY else None
        if dropped is not None:
            statements.append(f"DROP QUERY {dropped.name};")
            dropped.dropped = read
        tick = self._request(Request("change", script="\n".join(statements))).tick
        added.added = self.writer.period
        self.temporary.append(added)
        if dropped is not None:
            dropped.latest = self.writer.period
            eventually(lambda: self._feed_until(tick))
            self.reader.forget(dropped.name)
        if number % BREAKS == BREAKS - 1:
            self._break()

    def _break(self) -> None:
        """The folder of a query is replaced by a file, which suspends it; then it is there again, and it is resumed."""
        for path in self._outside.rglob("*"):
            if path.is_file():
                path.unlink()
        moved = self._outside.with_name("moved")
        self._outside.rename(moved)
        self._outside.touch()
        eventually(lambda: self._feed_until(0) and "outside" in committed(self.home).suspended)
        self._outside.unlink()
        moved.rename(self._outside)
        tick = self._request(Request("resume", script="outside")).tick
        eventually(lambda: self._feed_until(tick))
        assert "outside" not in committed(self.home).suspended
        self.suspensions += 1

    def _feed_until(self, tick: int) -> bool:
        manifest = committed(self.home)
        if self.writer.period - periods_read(manifest) < AHEAD:
            self.writer.write()
        return manifest.tick >= tick

    def _request(self, request: Request) -> Reply:
        return self._mailbox.ask(request, PATIENCE)

    # Figures ---------------------------------------------------------------------------------------

    def _measure(self, tick: int) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        inside = json.loads(self.process.stdout.readline())
        self.levels.add(tick, {**inside, **self._of_processes(), **self._of_home()}, 1000 * self._tick_seconds())

    def _of_processes(self) -> dict[str, float]:
        found: Counter[str] = Counter()
        driver = psutil.Process(self.process.pid)
        (java,) = (child for child in driver.children() if "java" in child.name())
        for process in (driver, *driver.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found["open files"] += process.num_fds()
                if process.pid != java.pid:
                    group = "driver" if process == driver else "tasks" if java in process.parents() else "helpers"
                    found[f"memory of {group}"] += (
                        process.memory_full_info().pss
                    )  # pages shared with others count in part
                    found[f"processes: {group}"] += 1
        return dict(found)

    def _of_home(self) -> dict[str, float]:
        files = [path for path in self.home.rglob("*") if path.is_file()]
        # `_columns` of queries and `spark.log` have their names too: every kind of file of a home is a figure.
        found: Counter[str] = Counter({"files in the home": len(files)})
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                found[f"bytes of {path.relative_to(self.home).parts[0].replace('.old', '.jsonl')}"] += (
                    path.stat().st_size
                )
        return dict(found)

    def _tick_seconds(self) -> float:
        lines = (self.home / layout.TICKS).read_text().splitlines()
        times = [json.loads(line) for line in lines]
        recent = [time["gather"] + time["probe"] + time["commit"] for time in times if time["tick"] > self._logged]
        self._logged = times[-1]["tick"]
        return float(median(recent or [0.0]))


@contextlib.contextmanager
def long_run(folder: Path) -> Iterator[LongRun]:
    script = folder / "in" / "pipeline.sql"
    script.parent.mkdir()
    outside = f"CREATE QUERY outside INTO parquet '{folder / 'outside'}' AS {windowed(PAIR, STREAMS[1:])};\n"
    counted = f"CREATE QUERY counted INTO count AS {windowed(PAIR, STREAMS[::2])};\n"
    standing = "".join(f"CREATE QUERY {name} AS {windowed(*query)};\n" for name, query in STANDING.items())
    script.write_text(SCRIPT + standing + outside + counted)
    (folder / "outside").mkdir()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.long.program", str(folder / "home"), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
    try:
        run = LongRun(folder, process)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n", (folder / "log").read_text()
        yield run
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def test_nothing_grows(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    ticks = int(pytestconfig.getoption("--ticks"))
    with long_run(tmp_path) as run:
        run.run(ticks)
        run.finish()
    (tmp_path / "levels.json").write_text(json.dumps(vars(run.levels)))
    draw(run.levels)
    check_standing(run)
    check_temporary(run)
    assert run.suspensions >= ticks // EVERY // BREAKS - 1
    assert {"open files", "files in the home", "memory of tasks", "heap of Java"} <= run.levels.figures.keys()
    grown = {}
    for name in run.levels.figures:
        second, last = run.levels.fifths(name)
        print(f"{name}: {second:,.0f}, at the end {last:,.0f}")
        if last > GROWTH * second + SPARE:
            grown[name] = f"{second:,.0f} became {last:,.0f}"
    assert not grown


def draw(levels: Levels) -> None:
    step = -(-len(levels.at) // DRAWN)

    def line(values: Sequence[float], unit: float = 1.0) -> list[tuple[float, float]]:
        return [(float(tick), value / unit) for tick, value in zip(levels.at, values, strict=True)][::step]

    def lines(unit: float, *names: str) -> dict[str, list[tuple[float, float]]]:
        return {name: line(levels.figures[name], unit) for name in names}

    logs = sorted(name for name in levels.figures if name.endswith("jsonl") or name.split()[-1] in SMALL_FOLDERS)
    memory = ("memory of driver", "memory of tasks", "memory of helpers", "heap of Java")
    picture = panels(
        f"{levels.at[-1]:,} ticks with a change of the queries every {EVERY}",
        [
            Panel("time of a tick", "tick", "ms", {"median": line(levels.milliseconds)}),
            Panel("memory", "tick", "MB", lines(1e6, *memory)),
            Panel("files", "tick", "files", lines(1, "open files", "files in the home")),
            Panel("logs", "tick", "kB", lines(1e3, *logs)),
        ],
    )
    PICTURE.write_text(picture)


def check_standing(run: LongRun) -> None:
    with input_tables(run) as tables:
        for name, query in STANDING.items():
            expected(tables, name, *query, run.writer.period)
            tables.register("found", pa.concat_tables(run.reader.results[name]))
            assert rows(tables, f"FROM {name} EXCEPT ALL FROM found") == 0, f"{name}: results are missing"
            assert rows(tables, f"FROM found EXCEPT ALL FROM {name}") == 0, f"{name}: results that should not be"
        expected(tables, "counted", PAIR, STREAMS[::2], run.writer.period)
        counts = pa.concat_tables(run.reader.results[layout.COUNTS])
        assert sum(counts["matches"].to_pylist()) == rows(tables, "FROM counted")


def check_temporary(run: LongRun) -> None:
    """What came while a query was certainly active is there; nothing is there twice, or from when it was not active."""
    with input_tables(run) as tables:
        expected(tables, "pairs", PAIR.replace("SELECT", "SELECT o.k AS k,"), STREAMS[:2], run.writer.period)
        for query in run.temporary[::SAMPLE]:
            tables.register("found", pa.concat_tables(run.reader.results[query.name]))
            own = f"SELECT o, p, period FROM pairs WHERE k < {query.limit}"
            certain = f"{own} AND period > {query.added} AND period < {query.dropped}"
            assert rows(tables, f"({certain}) EXCEPT ALL FROM found") == 0, f"{query.name}: results are missing"
            possible = f"{own} AND period <= {query.latest}"
            if not query.backfill:
                possible += f" AND period >= {query.earliest}"
            assert rows(tables, f"FROM found EXCEPT ALL ({possible})") == 0, f"{query.name}: results that should not be"


@contextlib.contextmanager
def input_tables(run: LongRun) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, written in run.writer.written.items():
            connection.register("written", pa.concat_tables(written))
            run_sql(connection, f"CREATE TABLE {name} AS FROM written")
        yield connection


def run_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[object, ...]]:
    return list(connection.execute(sql).fetchall())


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    ((found,),) = run_sql(connection, f"SELECT count(*) FROM ({query})")
    assert isinstance(found, int)
    return found
