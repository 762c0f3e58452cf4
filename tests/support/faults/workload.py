"""The input and the queries of the fault tests: small, but every store merges, expires and is shared."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable

import pyarrow as pa

from tests.support.cases import ARROW, SECOND, Case, QueryCase, StreamCase
from tests.support.parquet_input import EPOCH

TICK_SECONDS = 2  # of event time in one file: windows of 8 to 12 seconds span buckets that merge, then expire
SILENCE = 60  # seconds without a row after every ten files' worth: all that is stored expires at once
TIMELESS = 20  # each row of this number has no event time: it is set aside, and in no query's answer
LATENESS = SECOND  # rows come up to this much out of order, and none is late
CUSTOMERS = [None, *(f"customer {number}" for number in range(7)), "a name that is longer than eight bytes", ""]

COLUMNS = {
    "orders": (("customer", "STRING"), ("item", "BIGINT"), ("v", "INT")),
    "payments": (("customer", "STRING"), ("item", "BIGINT"), ("v", "INT")),
    "parcels": (("depot", "STRING"), ("item", "BIGINT"), ("v", "INT")),
}
Member = tuple[str, str, int | None]  # alias, stream, window in seconds


def make_case(ticks: int = 40, rows: int = 24, seed: int = 1, partitions: int = 1) -> Case:
    """The same rows for the same arguments, so that the program and the test need not exchange them."""
    chance = random.Random(seed)
    streams = tuple(_stream(name, ticks, rows, chance) for name in COLUMNS)
    return Case(streams, QUERIES, partitions, frozenset(), 2)


def _stream(name: str, ticks: int, rows: int, chance: random.Random) -> StreamCase:
    arrivals = []
    for number in range(ticks * rows):
        tau = chance.randrange(ticks * TICK_SECONDS * SECOND)
        tau += tau // (10 * TICK_SECONDS * SECOND) * SILENCE * SECOND
        arrivals.append((tau + chance.randrange(LATENESS), tau, number))
    arrivals.sort()
    times = [None if row[2] % TIMELESS == 0 else EPOCH + dt.timedelta(microseconds=row[1]) for row in arrivals]
    data: dict[str, pa.Array] = {
        "ts": pa.array(times, ARROW["TIMESTAMP"]),
        "id": pa.array([row[2] for row in arrivals], pa.int64()),
    }
    for column, kind in COLUMNS[name]:
        values = {"STRING": CUSTOMERS, "BIGINT": [*range(5), 2**40], "INT": list(range(-3, 4))}[kind]
        data[column] = pa.array([chance.choice(values) for _ in arrivals], ARROW[kind])
    # By number of rows: the files of one stream are about, but not exactly, the same time as another's.
    return StreamCase(name, COLUMNS[name], LATENESS, pa.table(data), tuple(range(rows, ticks * rows, rows)))


def _query(name: str, selected: str, members: Iterable[Member], conditions: list[str]) -> QueryCase:
    """One query as Watersmeet's SQL and as a batch query for DuckDB."""
    members = list(members)
    ours = ", ".join(
        f"{stream} {'[UNBOUNDED]' if window is None else f'[RANGE {window} SECONDS]'} AS {alias}"
        for alias, stream, window in members
    )
    newest = f"greatest({', '.join(f'epoch_us({alias}.ts)' for alias, _, _ in members)})"
    tests = [
        f"{newest} - epoch_us({alias}.ts) <= {window * SECOND}" for alias, _, window in members if window is not None
    ]
    theirs = ", ".join(f"{stream} AS {alias}" for alias, stream, _ in members)
    where = " AND ".join(conditions)
    return QueryCase(
        name,
        f"SELECT {selected} FROM {ours} WHERE {where}",
        f"SELECT {selected} FROM {theirs} WHERE {' AND '.join([where, *tests])}",
    )


_PARTNER = (
    "o.customer = p.customer AND p.v > 0 AND epoch_us(p.ts) BETWEEN"
    f" epoch_us(o.ts) - {2 * SECOND} AND epoch_us(o.ts) + {3 * SECOND}"
)
QUERIES = (
    _query(
        "paid",
        "o.id AS o, p.id AS p, o.customer AS customer, o.v + p.v AS total",
        [("o", "orders", 8), ("p", "payments", 4)],
        ["o.customer = p.customer"],
    ),
    _query(
        "paid_late",  # shares the steps of `paid`, with its own windows and a filter
        "o.id AS o, p.id AS p, p.ts AS at",
        [("o", "orders", 12), ("p", "payments", 2)],
        ["o.customer = p.customer", "o.v > 0"],
    ),
    _query(
        "delivered",
        "o.id AS o, p.id AS p, c.id AS c",
        [("o", "orders", 8), ("p", "payments", 8), ("c", "parcels", 6)],
        ["o.customer = p.customer", "p.item = c.item", "c.v > 1", "o.v < 0"],
    ),
    _query(
        "again",
        "a.id AS a, b.id AS b",
        [("a", "orders", 6), ("b", "orders", 6)],
        ["a.customer = b.customer", "a.item = b.item", "b.v <> 0"],
    ),
    _query(
        "stock",
        "c.id AS c, p.id AS p",
        [("c", "parcels", 12), ("p", "payments", 3)],
        ["c.item = p.item", "c.depot = 'customer 1'"],
    ),
    QueryCase(
        "unpaid",
        "SELECT o.id AS o, p.id AS p, coalesce(p.v, 100) AS v FROM orders [RANGE 3 SECONDS] AS o"
        " LEFT JOIN payments [RANGE 2 SECONDS] AS p ON o.customer = p.customer AND p.v > 0",
        f"""
        SELECT o.id, p.id, p.v FROM orders AS o, payments AS p WHERE {_PARTNER}
        UNION ALL SELECT o.id, NULL, 100 FROM orders AS o
        WHERE NOT EXISTS (SELECT 1 FROM payments AS p WHERE {_PARTNER})
        AND epoch_us(o.ts) + {3 * SECOND} < (SELECT max(epoch_us(ts)) - {LATENESS} FROM payments)""",
    ),
    QueryCase(
        "settled",
        "SELECT o.id AS o FROM orders [RANGE 3 SECONDS] AS o WHERE EXISTS"
        " (SELECT 1 FROM payments [RANGE 2 SECONDS] AS p WHERE o.customer = p.customer AND p.v > 0)",
        f"SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM payments AS p WHERE {_PARTNER})",
    ),
)
