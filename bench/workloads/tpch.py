"""Random join queries over TPC-H's tables with full history (CLASH, section VII-A).

Queries are made as the paper says: a random relation, then random joins over keys and over columns of the same type
whose values meet, until the query is large enough. A join that would make far more pairs than there are rows is left
out, so that every system can finish, and so is a query with many results: writing them costs all systems the same, and
would hide what the joins cost. The tables arrive shuffled, all of them in equal shares at the same time.
`bench/peers/set-up tpch` installs the generator; only columns that join are kept.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Collection
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.three_streams import EPOCH
from bench.workloads.model import MICROS, Query, Stream, Table, Workload
from bench.workloads.texts import duckdb_count_up_to

TICKS = 8
SIZES = (4, 5)  # relations of a query, in turn
SEED = 6
COLUMNS = {
    "lineitem": ("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity"),
    "orders": ("o_orderkey", "o_custkey"),
    "partsupp": ("ps_partkey", "ps_suppkey", "ps_availqty"),
    "part": ("p_partkey", "p_size"),
    "customer": ("c_custkey", "c_nationkey"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "nation": ("n_nationkey", "n_regionkey"),
    "region": ("r_regionkey",),
}
# Keys first, then columns that only have the same type.
JOINS = (
    ("lineitem.l_orderkey", "orders.o_orderkey"),
    ("lineitem.l_partkey", "part.p_partkey"),
    ("lineitem.l_suppkey", "supplier.s_suppkey"),
    ("lineitem.l_partkey", "partsupp.ps_partkey"),
    ("partsupp.ps_partkey", "part.p_partkey"),
    ("partsupp.ps_suppkey", "supplier.s_suppkey"),
    ("orders.o_custkey", "customer.c_custkey"),
    ("customer.c_nationkey", "nation.n_nationkey"),
    ("supplier.s_nationkey", "nation.n_nationkey"),
    ("nation.n_regionkey", "region.r_regionkey"),
    ("customer.c_nationkey", "supplier.s_nationkey"),
    ("customer.c_custkey", "nation.n_nationkey"),
    ("customer.c_custkey", "supplier.s_suppkey"),
    ("orders.o_orderkey", "customer.c_custkey"),
    ("orders.o_custkey", "part.p_partkey"),
    ("orders.o_orderkey", "part.p_partkey"),
    ("part.p_size", "nation.n_nationkey"),
    ("part.p_partkey", "supplier.s_suppkey"),
    ("partsupp.ps_availqty", "part.p_partkey"),
    ("partsupp.ps_availqty", "orders.o_custkey"),
    ("lineitem.l_linenumber", "region.r_regionkey"),
    ("lineitem.l_quantity", "nation.n_nationkey"),
    ("lineitem.l_partkey", "customer.c_custkey"),
    ("lineitem.l_suppkey", "customer.c_custkey"),
)
PAIRS_A_ROW, RESULTS_A_ROW = 3, 0.3  # at most, of all rows together


def make(folder: Path, scale: float, count: int, ticks: int = TICKS) -> Workload:
    """Scale 1 is TPC-H's scale factor 0.1: about 870,000 rows."""
    rows = write_streams(folder, 0.1 * scale, ticks=ticks)
    streams = tuple(
        Stream(name, {"ts": "timestamp", **dict.fromkeys(columns, "bigint")}) for name, columns in COLUMNS.items()
    )
    return Workload(f"tpch-{count}", str(folder / "in"), streams, queries(folder / "in", count), rows)


def write_streams(
    folder: Path, factor: float, relations: Collection[str] = tuple(COLUMNS), ticks: int = TICKS, seconds: int = 1
) -> dict[str, list[int]]:
    """The files of these relations, `seconds` of event time a tick; returns the rows of each by tick."""
    bench = Path(__file__).parent.parent
    subprocess.run([bench / "peers" / "set-up", "tpch"], check=True)
    command = [bench / ".venv-tpch" / "bin" / "tpchgen-cli", "parquet", "-s", f"{factor:g}"]
    command += ["--tables", ",".join(relations), "--output-dir", folder / "made"]
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    rng = np.random.default_rng(SEED)
    rows: dict[str, list[int]] = {}
    for name, columns in COLUMNS.items():
        if name not in relations:
            continue
        whole = pq.read_table(folder / "made" / f"{name}.parquet", columns=list(columns))
        whole = whole.cast(pa.schema([(column, pa.int64()) for column in columns]))
        whole = whole.take(pa.array(rng.permutation(whole.num_rows)))
        (folder / "in" / name).mkdir(parents=True)
        rows[name] = []
        for tick, places in enumerate(np.array_split(np.arange(whole.num_rows), ticks)):
            part = whole.slice(places[0] if len(places) else 0, len(places))
            length = seconds * MICROS
            times = EPOCH + tick * length + np.sort(rng.integers(0, length, len(places)))
            part = part.add_column(0, "ts", pa.array(times, pa.timestamp("us", tz="UTC")))
            pq.write_table(part, folder / "in" / name / f"{tick:06d}.parquet")
            rows[name].append(len(places))
    return rows


def queries(folder: Path, count: int) -> tuple[Query, ...]:
    """The first queries of a fixed sequence, so that the ten contain the five."""
    connection = duckdb.connect()
    for name in COLUMNS:
        connection.execute(f"CREATE TABLE {name} AS FROM '{folder / name}/*.parquet'")
    total = sum(_number(connection, f"SELECT count(*) FROM {name}") for name in COLUMNS)
    joins = [pair for pair in JOINS if 0 < _pairs(connection, *pair) <= PAIRS_A_ROW * total]
    most = int(RESULTS_A_ROW * total)
    chance = random.Random(SEED)
    made: list[Query] = []
    while len(made) < count:
        query = _random(chance, joins, f"q{len(made) + 1}", SIZES[len(made) % len(SIZES)])
        known = any(set(query.equalities) == set(other.equalities) for other in made)
        if not known and 0 < _number(connection, duckdb_count_up_to(query, most + 1)) <= most:
            made.append(query)
    return tuple(made)


def _random(chance: random.Random, joins: list[tuple[str, str]], name: str, size: int) -> Query:
    relations = [chance.choice(sorted(COLUMNS))]
    chosen: list[tuple[str, str]] = []
    while len(relations) < size:
        possible = [pair for pair in joins if len(_relations(pair) - set(relations)) == 1]
        if not possible:
            relations, chosen = [chance.choice(sorted(COLUMNS))], []
            continue
        pair = chance.choice(possible)
        chosen.append(pair)
        relations += _relations(pair) - set(relations)
    tables = tuple(Table(relation, relation) for relation in relations)
    return Query(
        name, tables, tuple(sorted(chosen)), tuple(f"{relation}.{COLUMNS[relation][0]}" for relation in relations)
    )


def _relations(pair: tuple[str, str]) -> set[str]:
    return {end.split(".")[0] for end in pair}


def _pairs(connection: duckdb.DuckDBPyConnection, left: str, right: str) -> int:
    counted = [
        f"(SELECT {column} AS key, count(*) AS n FROM {table} GROUP BY ALL) AS {side}"
        for side, (table, column) in (("x", left.split(".")), ("y", right.split(".")))
    ]
    return _number(connection, f"SELECT coalesce(sum(x.n * y.n), 0) FROM {', '.join(counted)} WHERE x.key = y.key")


def _number(connection: duckdb.DuckDBPyConnection, text: str) -> int:
    row = connection.execute(text).fetchone()
    return int(row[0]) if row else 0
