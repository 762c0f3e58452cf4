"""Impressions, their clicks, and the purchases behind them: joins on the impression's id, with strings and filters.

The rows are those of the windowed workload (bench/windows/advertising_rows.py); a fifth of the clicks end in purchases.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.windows.advertising_rows import write_rows
from bench.workloads.model import MICROS, Query, Stream, Table, Workload

WINDOW = 10
TICKS, WARM_UP = 30, 12  # Java's compiler is done, and windows are full
BOUGHT = 0.2
STREAMS = (
    Stream(
        "impressions",
        {"ts": "timestamp", "id": "bigint", "person": "bigint", "site": "string", "campaign": "int", "price": "bigint"},
    ),
    Stream("clicks", {"ts": "timestamp", "impression": "bigint", "cost": "bigint"}),
    Stream("purchases", {"ts": "timestamp", "impression": "bigint", "amount": "bigint"}),
)
SELECTED = ("i.id", "i.person", "i.site", "i.campaign", "c.cost", "p.amount")
FILTERS = ("", "i.price > 800", "i.price < 200", "i.campaign < 100", "i.site LIKE 'a%'")


def query(name: str, seconds: int, filter_: str = "", selected: tuple[str, ...] = SELECTED) -> Query:
    tables = (("i", "impressions"), ("c", "clicks"), ("p", "purchases"))
    return Query(
        name,
        tuple(Table(alias, stream, seconds) for alias, stream in tables),
        (("i.id", "c.impression"), ("c.impression", "p.impression")),
        selected,
        (filter_,) if filter_ else (),
    )


def make(folder: Path, scale: float, count: int = 1, rows: int = 200_000, ticks: int = TICKS) -> Workload:
    """`rows` of impressions in each tick of one second; of several queries each has its window, filter and columns."""
    rows = max(1000, int(rows * scale))
    write_rows(folder / "in", ticks, rows)
    _write_purchases(folder / "in", ticks)
    queries = [query("q0", WINDOW)] + [
        query(f"q{number}", 2 + number % 4 * 2, FILTERS[number % len(FILTERS)], SELECTED[number % 3 :])
        for number in range(1, count)
    ]
    counted = {
        stream.name: [
            pq.read_metadata(folder / "in" / stream.name / f"{tick:06d}.parquet").num_rows for tick in range(ticks)
        ]
        for stream in STREAMS
    }
    return Workload("advertising", str(folder / "in"), STREAMS, tuple(queries), counted, WARM_UP)


def _write_purchases(folder: Path, ticks: int) -> None:
    chance = np.random.default_rng(8)
    (folder / "purchases").mkdir()
    at, of = np.empty(0, np.int64), np.empty(0, np.int64)
    for tick in range(ticks):
        clicks = pq.read_table(folder / "clicks" / f"{tick:06d}.parquet")
        bought = chance.random(len(clicks)) < BOUGHT
        clicked = np.asarray(clicks.column("ts").cast(pa.int64()))[bought]
        after = clicked + 1 + chance.exponential(MICROS, len(clicked)).astype(np.int64)
        at = np.concatenate((at, after))
        of = np.concatenate((of, np.asarray(clicks.column("impression"))[bought]))
        now = at < (tick + 1) * MICROS
        order = np.argsort(at[now], kind="stable")
        rows = {
            "ts": pa.array(at[now][order], pa.timestamp("us", tz="UTC")),
            "impression": of[now][order],
            "amount": chance.integers(1, 10_000, len(order)),
        }
        pq.write_table(pa.table(rows), folder / "purchases" / f"{tick:06d}.parquet")
        at, of = at[~now], of[~now]
