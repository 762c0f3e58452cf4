"""Nexmark's join queries over persons, auctions and bids in the proportion 1 : 3 : 46 (the generator is the demo's).

q3, q20 and q23 keep the full history, as Nexmark has them. q8 is without its aggregation: a person and an auction of
theirs in the same ten seconds of the clock, which is an equality of `pane` and so needs no more than 10 s of state.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.three_streams import EPOCH
from bench.workloads.model import MICROS, Query, Stream, Table, Workload
from watersmeet.cli.demo.events import AuctionSite

RATE = 10_000  # events a second of event time
PANE = 10
STREAMS = (
    Stream(
        "persons",
        {"id": "bigint", "name": "string", "city": "string", "state": "string", "ts": "timestamp", "extra": "string"},
    ),
    Stream(
        "auctions",
        {
            **{"id": "bigint", "item": "string", "category": "bigint", "seller": "bigint", "opening_bid": "bigint"},
            **{"reserve": "bigint", "ts": "timestamp", "expires": "timestamp", "extra": "string"},
        },
    ),
    Stream("bids", {"auction": "bigint", "bidder": "bigint", "price": "bigint", "ts": "timestamp", "extra": "string"}),
)
STREAMS[0].columns["pane"] = STREAMS[1].columns["pane"] = "bigint"
PERSONS, AUCTIONS, BIDS = Table("p", "persons"), Table("a", "auctions"), Table("b", "bids")
QUERIES = (
    Query(
        "q3",
        (AUCTIONS, PERSONS),
        (("a.seller", "p.id"),),
        ("p.name", "p.city", "p.state", "a.id"),
        ("a.category = 10", "p.state IN ('OR', 'ID', 'CA')"),
    ),
    Query(
        "q8",
        (Table("p", "persons", PANE), Table("a", "auctions", PANE)),
        (("p.id", "a.seller"), ("p.pane", "a.pane")),
        ("p.id", "p.name", "a.id", "a.reserve"),
    ),
    Query(
        "q20",
        (BIDS, AUCTIONS),
        (("b.auction", "a.id"),),
        ("b.auction", "b.bidder", "b.price", "b.extra", "a.item", "a.opening_bid", "a.reserve", "a.seller"),
        ("a.category = 10",),
    ),
    Query(
        "q23",
        (BIDS, PERSONS, AUCTIONS),
        (("b.bidder", "p.id"), ("p.id", "a.seller")),
        ("b.auction", "b.bidder", "b.price", "p.name", "p.city", "a.id", "a.item"),
    ),
)


def make(folder: Path, scale: float) -> Workload:
    events, ticks = max(5_000, int(200_000 * scale)) // 50 * 50, 8
    site = AuctionSite(EPOCH, RATE)
    rows: dict[str, list[int]] = {stream.name: [] for stream in STREAMS}
    for tick in range(ticks):
        for name, made in site.tables(tick * events, (tick + 1) * events).items():
            table = made.rename_columns(["ts" if column == "at" else column for column in made.column_names])
            if name != "bids":
                micros = table.column("ts").cast(pa.int64())
                table = table.append_column("pane", pc.divide(micros, PANE * MICROS))
            path = folder / "in" / name / f"{tick:06d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
            rows[name].append(table.num_rows)
    return Workload("nexmark", str(folder / "in"), STREAMS, QUERIES, rows)
