"""COUNT and SUM over a three-way join in which every row has a hundred partners, against DuckDB's join of the windows.

Both run in this process on one thread: what is compared is the factorized aggregate with the join, not two engines.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from watersmeet.aggregate.answers import answers
from watersmeet.aggregate.choice import slice_stores
from watersmeet.aggregate.due import DueQuery
from watersmeet.aggregate.partials import partial_aggregates
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model import ColumnRef, Output, Query
from watersmeet.model.forms import FactorizedAggregates, JoinPartial, Member
from watersmeet.model.predicate import KeyPart
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.store.bucket import Bucket

SECOND = 1_000_000
FAN_OUT = 100
STREAMS = ("r", "s", "t")
GRID = SlidingWindow(10 * SECOND, 5 * SECOND)


@dataclass(frozen=True)
class Joined:
    rows: int  # of each stream, in a window
    results: int  # of the join, in a window
    ours: float  # CPU seconds for all windows
    duckdb: float


def measured() -> list[dict[str, Any]]:
    _compute(_input(1_000), 1_000)  # what is compiled and loaded once
    found = []
    for rows in (1_000, 2_000, 4_000, 8_000, 16_000, 64_000):
        tables = _input(rows)
        seconds, mine = _compute(tables, rows)
        reference, theirs = _reference(tables) if rows <= 16_000 else (float("nan"), mine)
        assert mine == theirs, f"{mine} instead of {theirs}"
        found.append(Joined(rows, mine[0][1], seconds, reference))
    return [each.__dict__ for each in found]


def show(found: list[dict[str, Any]]) -> None:
    table = Table(title=f"COUNT and SUM over a three-way join, {FAN_OUT} partners at each step")
    for column in ("rows of a window", "results of its join", "CPU ms", "per row", "DuckDB's join, CPU ms", "÷ ours"):
        table.add_column(column, justify="right")
    for each in found:
        known = each["duckdb"] == each["duckdb"]
        table.add_row(
            f"{3 * each['rows']:,}",
            f"{each['results']:,}",
            f"{1e3 * each['ours']:.1f}",
            f"{1e6 * each['ours'] / each['rows'] / 3:.2f} µs",
            f"{1e3 * each['duckdb']:,.0f}" if known else "",
            f"{each['duckdb'] / each['ours']:.0f} ×" if known else "",
        )
    Console(width=None if Console().is_terminal else 140).print(table)


def _input(rows: int) -> dict[str, pa.RecordBatch]:
    """Rows of three windows' time; each row of s has a hundred partners in r and in t in a window."""
    chance = np.random.default_rng(15)
    total = 2 * rows  # 20 seconds, of which a window has ten
    made = {}
    for stream in STREAMS:
        at = np.sort(chance.integers(0, 20 * SECOND, total))
        columns = {name: chance.integers(0, rows // FAN_OUT, total) for name in ("a", "b")}
        made[stream] = pa.record_batch({"at": at, **columns, "x": chance.integers(0, 1000, total)})
    return made


def _query() -> Query:
    a, b, x = (ColumnRef(name, "bigint") for name in "abx")
    members = (
        Member("s", "s", None, None),
        Member("r", "r", None, 0, (KeyPart(a, "bigint"),), (KeyPart(a, "bigint"),)),
        Member("t", "t", None, 0, (KeyPart(b, "bigint"),), (KeyPart(b, "bigint"),)),
    )
    partials = (JoinPartial("count", (), (), "bigint"), JoinPartial("sum", ((1, x),), (), "decimal(38,0)"))
    columns = (("window_start", "timestamp"), ("p0", "bigint"), ("p1", "decimal(38,0)"))
    outputs = tuple(Output(name, kind, ColumnRef(name, kind)) for name, kind in columns)
    return Query("q", FactorizedAggregates(members, (), partials, outputs=outputs), GRID)


def _compute(tables: dict[str, pa.RecordBatch], rows: int) -> tuple[float, list[tuple[int, int, int]]]:
    """From rows to results, as tasks do it."""
    query = _query()
    readings = slice_stores([query])
    stores = {reading.store for reading in readings["q"]}
    begun = time.process_time()
    buckets: dict[SliceStore, Bucket] = {}
    for store in stores:
        made = partial_aggregates(store, tables[store.source], np.asarray(tables[store.source].column("at")))
        assert made.rows is not None
        buckets[store] = made.rows
    caches: dict[SliceStore, SliceCache] = {}
    for store in stores:
        caches[store] = SliceCache(store, GRID.range)
        caches[store].advance(partial(_all, [buckets[store]]), -GRID.range, 20 * SECOND)
    (answer,) = answers([DueQuery(query, readings["q"], DueRange(GRID, 0, 10 * SECOND + 1))], caches.__getitem__)
    seconds = time.process_time() - begun
    assert answer.rows is not None
    return seconds, [(row["window_start"].second, row["p0"], int(row["p1"])) for row in answer.rows.to_pylist()]


def _all(buckets: list[Bucket], begin: int, end: int) -> list[Bucket]:
    return buckets


def _reference(tables: dict[str, pa.RecordBatch]) -> tuple[float, list[tuple[int, int, int]]]:
    """The batch query, window by window."""
    found = []
    with duckdb.connect(config={"threads": 1}) as connection:
        for stream in STREAMS:
            connection.register(f"{stream}_rows", pa.Table.from_batches([tables[stream]]))
            connection.execute(f"CREATE TABLE {stream} AS FROM {stream}_rows")
        begun = time.process_time()
        for start in range(0, 10 * SECOND + 1, GRID.slide):
            inside = " AND ".join(f'{name}."at" >= {start} AND {name}."at" < {start + GRID.range}' for name in STREAMS)
            ((count, total),) = connection.sql(
                f"SELECT count(*), sum(r.x) FROM s, r, t WHERE s.a = r.a AND s.b = t.b AND {inside}"
            ).fetchall()
            found.append((start // SECOND, count, int(total)))
        return time.process_time() - begun, found
