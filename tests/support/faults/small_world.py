"""A small pipeline of all kinds of files, for tests that damage a home or cut its power: everything is compared with
DuckDB, and no Spark is needed."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.answers import oracle_answers
from tests.support.case_engine import write_input
from tests.support.cases import QueryCase
from tests.support.faults.workload import QUERIES, make_case
from watersmeet import Engine, Sink

TICKS = 7
OUTSIDE, ADDED, COUNTED, WINDOWED = "outside", "added", "counted", "windowed"
Rows = Counter[tuple[object, ...]]
_NAMES = ("paid", "delivered", "again")
_WINDOW = 4  # seconds


@functools.cache
def _case() -> tuple[tuple[str, ...], dict[str, Rows]]:
    case = make_case(TICKS, rows=10)
    queries = {query.name: query for query in QUERIES if query.name in _NAMES}
    slices = f"epoch_us(ts) // {_WINDOW}000000"
    windows = f"SELECT customer, count(*) FROM orders WHERE ts IS NOT NULL GROUP BY customer, {slices}"
    found = oracle_answers(
        type(case)(case.streams, (*queries.values(), QueryCase(WINDOWED, "", windows)), 1, frozenset(), 1)
    )
    return tuple(queries), {**found, OUTSIDE: found["paid"], ADDED: found["paid"]}


class SmallWorld:
    """`root` has the home and the folder of INTO, and nothing else: what a loss of power concerns."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.root, self.input = folder / "root", folder / "input"
        self.home, self.out = self.root / "home", self.root / "out"
        self.options = options
        self.case = make_case(TICKS, rows=10)
        self.root.mkdir(parents=True)
        for stream in self.case.streams:
            (self.input / stream.name).mkdir(parents=True)

    def feed(self, ticks: range) -> None:
        write_input(self.case, self.input, ticks)

    def engine(self) -> Engine:
        engine = Engine(home=self.home, executor="local", adaptive="off", tick="1 millisecond", **self.options)
        for stream in self.case.streams:
            engine.sql(stream.reading(self.input / stream.name))
        queries = {query.name: query for query in QUERIES}
        for name in _NAMES:
            engine.query(name, queries[name].sql)
        engine.query(OUTSIDE, queries["paid"].sql, Sink("parquet", str(self.out)))
        engine.query(COUNTED, queries["paid"].sql, Sink("count"))
        windows = f"WINDOW TUMBLE {_WINDOW} SECONDS"
        engine.query(WINDOWED, f"SELECT customer, count(*) AS n FROM orders GROUP BY customer {windows}")
        return engine

    def begin(self) -> None:
        """A home with a query that was added while the engine ran, before the first row."""
        with self.engine() as engine:
            engine.run_once()
            engine.start()
            engine.query(ADDED, {query.name: query for query in QUERIES}["paid"].sql)
            engine.stop()

    def run(self, flush: bool = True) -> None:
        with self.engine() as engine:
            engine.run_once(flush=flush)

    def folder(self, query: str) -> Path:
        return self.out if query == OUTSIDE else self.home / "results" / query

    def found(self) -> dict[str, dict[str, Rows]]:
        """By query and file what readers see now."""
        return {query: _files(self.folder(query)) for query in expected()}

    def counted(self) -> int:
        """The matches of the query that only counts them."""
        paths = (self.home / "counts").glob("*.parquet")
        return sum(row["matches"] for path in paths for row in pq.read_table(path).to_pylist())


def expected() -> dict[str, Rows]:
    return _case()[1]


def _files(folder: Path) -> dict[str, Rows]:
    return {path.name: rows_in(path.read_bytes()) for path in folder.glob("0*.parquet")}


def rows_in(content: bytes) -> Rows:
    """The rows of a Parquet file; none where it cannot be read."""
    with contextlib.suppress(pa.ArrowInvalid, OSError):
        table = pq.read_table(pa.BufferReader(content))
        return Counter(tuple(row.values()) for row in table.to_pylist())
    return Counter()


def together(files: Mapping[str, Rows]) -> Rows:
    return sum(files.values(), Counter())
