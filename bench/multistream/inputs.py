"""What the experiments join: the joins of TPC-H's queries 2, 3 and 5, and chains with chosen selectivities.

Each input is a Workload with one query, whose aliases are named like their streams. Results are checked against DuckDB,
which also tells the true share of pairs that each join keeps, so that plans are not compared by their guesses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.comparing import date_files
from bench.peers import duck
from bench.three_streams import EPOCH
from bench.workloads import tpch
from bench.workloads.model import MICROS, Query, Stream, Table, Workload

Equality = tuple[str, str]

# The joins without filters, aggregates and subqueries, as in the paper.
# Q5 has a cycle: customers and suppliers of one nation.
TPCH: dict[str, tuple[tuple[str, ...], tuple[Equality, ...]]] = {
    "q2": (
        ("part", "partsupp", "supplier", "nation", "region"),
        (
            ("part.p_partkey", "partsupp.ps_partkey"),
            ("partsupp.ps_suppkey", "supplier.s_suppkey"),
            ("supplier.s_nationkey", "nation.n_nationkey"),
            ("nation.n_regionkey", "region.r_regionkey"),
        ),
    ),
    "q3": (
        ("customer", "orders", "lineitem"),
        (("customer.c_custkey", "orders.o_custkey"), ("orders.o_orderkey", "lineitem.l_orderkey")),
    ),
    "q5": (
        ("customer", "orders", "lineitem", "supplier", "nation", "region"),
        (
            ("customer.c_custkey", "orders.o_custkey"),
            ("orders.o_orderkey", "lineitem.l_orderkey"),
            ("lineitem.l_suppkey", "supplier.s_suppkey"),
            ("customer.c_nationkey", "supplier.s_nationkey"),
            ("supplier.s_nationkey", "nation.n_nationkey"),
            ("nation.n_regionkey", "region.r_regionkey"),
        ),
    ),
}

# Rows of the next relation that a row meets: size times selectivity in the paper, 10⁶ times 10⁻⁸, 10⁻⁶ and 10⁻⁵.
PARTNERS = {"L": 0.01, "M": 1.0, "H": 10.0}
RELATIONS = "abcde"


def query(name: str, relations: tuple[str, ...], equalities: tuple[Equality, ...], window: int | None = None) -> Query:
    """Results carry the event times of their rows: those tell when the last of them arrived."""
    tables = tuple(Table(relation, relation, window) for relation in relations)
    return Query(name, tables, equalities, tuple(f"{relation}.ts" for relation in relations))


def chain_columns(letters: str) -> dict[str, tuple[str, ...]]:
    """MLM is a(k1), b(k1, k2), c(k2, k3), d(k3)."""
    last = len(letters)
    return {
        RELATIONS[at]: tuple(f"k{number}" for number in (at, at + 1) if 1 <= number <= last) for at in range(last + 1)
    }


def chain_keys(letters: str, rows: int) -> dict[str, int]:
    """Of how many values each join's keys are drawn, so that a row meets as many partners as the letter says."""
    return {f"k{at}": max(1, round(rows / PARTNERS[letter])) for at, letter in enumerate(letters, 1)}


def chain_query(letters: str) -> Query:
    columns = chain_columns(letters)
    relations = tuple(columns)
    equalities = tuple((f"{left}.k{at}", f"{right}.k{at}") for at, (left, right) in enumerate(pairwise(relations), 1))
    return query(f"custom_{letters.lower()}", relations, equalities)


@dataclass
class Inputs:
    """Makes each input once, in folders of its own below `folder`."""

    folder: Path
    made: dict[str, Workload] = field(default_factory=dict)
    counted: dict[tuple[str, Query], int] = field(default_factory=dict)

    def tpch(self, name: str, factor: float, ticks: int, seconds: int = 1, window: int | None = None) -> Workload:
        relations, equalities = TPCH[name]
        key = f"{name}-{factor:g}-{ticks}-{seconds}"
        folder = self.folder / key
        if key not in self.made:
            rows = tpch.write_streams(folder, factor, relations, ticks, seconds)
            columns = {relation: tpch.COLUMNS[relation] for relation in relations}
            self.made[key] = _workload(folder, name, columns, rows)
        made = self.made[key]
        return Workload(name, made.folder, made.streams, (query(name, relations, equalities, window),), made.rows)

    def chain(self, letters: str, rows: int, ticks: int) -> Workload:
        key = f"{letters}-{rows}-{ticks}"
        folder = self.folder / key
        columns = chain_columns(letters)
        if key not in self.made:
            by_tick = write_chain(folder / "in", letters, rows, ticks)
            self.made[key] = _workload(folder, f"custom-{letters}", columns, by_tick)
        made = self.made[key]
        return Workload(made.name, made.folder, made.streams, (chain_query(letters),), made.rows)

    def results(self, workload: Workload) -> int:
        """The right number of results, by DuckDB."""
        key = workload.folder, workload.queries[0]
        if key not in self.counted:
            self.counted[key] = duck.counts(workload, workload.ticks)[workload.queries[0].name]
        return self.counted[key]


def _workload(folder: Path, name: str, columns: dict[str, tuple[str, ...]], rows: dict[str, list[int]]) -> Workload:
    streams = tuple(
        Stream(relation, {"ts": "timestamp", **dict.fromkeys(keys, "bigint")}) for relation, keys in columns.items()
    )
    made = Workload(name, str(folder / "in"), streams, (), rows)
    date_files(made)
    return made


def write_chain(folder: Path, letters: str, rows: int, ticks: int) -> dict[str, list[int]]:
    """`rows` of each relation, over all ticks of a second each."""
    rng = np.random.default_rng(8)
    keys = chain_keys(letters, rows)
    counts: dict[str, list[int]] = {}
    for relation, columns in chain_columns(letters).items():
        (folder / relation).mkdir(parents=True)
        counts[relation] = [len(part) for part in np.array_split(np.arange(rows), ticks)]
        for tick, count in enumerate(counts[relation]):
            times = EPOCH + tick * MICROS + np.sort(rng.integers(0, MICROS, count))
            data = {"ts": pa.array(times, pa.timestamp("us", tz="UTC"))}
            data |= {column: pa.array(rng.integers(0, keys[column], count)) for column in columns}
            pq.write_table(pa.table(data), folder / relation / f"{tick:06d}.parquet")
    return counts


def shares(workload: Workload) -> list[tuple[str, str, float]]:
    """For each join the two streams and the share of their pairs that it keeps; of none at all, half a pair."""
    connection = duck.connect(workload, workload.ticks)
    rows = workload.counted()
    found = []
    for left, right in workload.queries[0].equalities:
        one, other = left.split(".")[0], right.split(".")[0]
        counted = connection.execute(f"SELECT count(*) FROM {one}, {other} WHERE {left} = {right}").fetchone()
        pairs = max(0.5, counted[0] if counted else 0)
        found.append((one, other, pairs / (rows[one] * rows[other])))
    return found
