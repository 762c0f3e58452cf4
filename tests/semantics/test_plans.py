"""Keys and bands over extreme values find what Spark finds, whatever the plan is.

One tick or six, one partition or three, streams alone or with materialized stores: NaN equals NaN and is the largest,
-0.0 is 0.0, and decimals of different scales, numbers and strings, dates and times meet as in Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.semantics.values import SHORT, VALUES
from tests.support.cases import Case, QueryCase, StreamCase
from tests.support.in_process import InProcess
from tests.support.parquet_input import EPOCH, TIMESTAMP
from tests.support.plans import plan_by, simple
from watersmeet.io.sinks import result_folder
from watersmeet.model.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 18
NUMBERS: list[object] = [None, "7", " 1 ", "0", "-1", "+7", "2147483647", "1", "-7", "007"]
DAYS: list[object] = [None, "2024-02-29", "1970-01-01", "0001-01-01", "2024-2-29", " 1970-01-01 ", "2000-01-31T"]
MEDIUM: list[object] = [
    None,
    *(Decimal(text) for text in ("0", "1.5", "-1.5", "1", "-1", "7.25", "99999999.99", "0.01")),
]
COLUMNS = {f"c_{short}": kind for kind, short in SHORT.items() if "<" not in kind}
COLUMNS |= {"c_num": "string", "c_day": "string", "c_dm": "decimal(18,6)", "c_bin": "binary"}
LISTED: dict[str, list[object]] = {
    "c_num": NUMBERS,
    "c_day": DAYS,
    "c_dm": MEDIUM,
    "c_bin": [None, b"", b"a", b"\x00", b"a\x00"],
}
KEYS = [
    *(
        "d = d",
        "f = f",
        "d = f",
        "i = d",
        "g = d",
        "f = i",
        "t = g",
        "s = i",
        "de = dl",
        "de = dm",
        "dm = dl",
        "de = i",
    ),
    *("de = d", "dl = g", "n = n", "bin = bin", "b = b", "dt = dt", "ts = ts", "dt = ts", "ts = tn", "dt = tn"),
    *("num = i", "num = g", "num = t", "num = d", "num = f", "day = dt", "num = de"),
]
SEVERAL = [
    ("d = d", "i = i"),
    ("n = n", "d = d"),
    ("f = d", "d = f"),
    ("de = dm", "dt = ts"),
    ("d = d", "f = f", "n = n"),
]
OTHERS = [
    *("a.c_d - b.c_d > 0", "a.c_d - b.c_d >= 1", "a.c_d - b.c_d < 1", "a.c_f - b.c_f > 0", "a.c_f - b.c_d > 0.5D"),
    *("a.c_d < b.c_d", "a.c_d >= b.c_d", "a.c_f <= b.c_d", "a.c_g < b.c_d", "a.c_i > b.c_d", "a.c_f > b.c_i"),
    *("abs(a.c_d - b.c_d) < 2", "a.c_d BETWEEN b.c_d - 1 AND b.c_d + 1", "a.c_d <> b.c_d", "a.c_d <=> b.c_d"),
    *("a.c_de < b.c_dl", "a.c_dm >= b.c_de", "a.c_de < b.c_d", "a.c_dt < b.c_ts", "a.c_ts >= b.c_tn", "a.c_n < b.c_n"),
    *(
        "a.c_num < b.c_i",
        "a.c_num > b.c_d",
        "a.c_day <= b.c_dt",
        "NOT (a.c_d < b.c_d)",
        "a.c_d < b.c_d OR a.c_i = b.c_i",
    ),
]


def pair(equality: str, one: str = "a", other: str = "b") -> str:
    left, right = equality.split(" = ")
    return f"{one}.c_{left} = {other}.c_{right}"


PREDICATES = [*map(pair, KEYS), *(" AND ".join(map(pair, each)) for each in SEVERAL), *OTHERS]
CHAINS = [f"{pair(key)} AND {pair(key, 'b', 'c')}" for key in ("d = d", "f = d", "de = dm", "dt = ts", "i = d")]
CHAINS += ["a.c_d = b.c_d AND a.c_i = b.c_i AND b.c_d = c.c_d", "a.c_d = b.c_d AND b.c_d - c.c_d > 0"]


def rows() -> pa.Table:
    data = {
        "ts": pa.array([EPOCH + dt.timedelta(seconds=at) for at in range(SIZE)], TIMESTAMP),
        "id": pa.array(range(SIZE), pa.int64()),
    }
    for name, kind in COLUMNS.items():
        listed = LISTED.get(name) or VALUES[kind]
        values = pa.array([listed[at % len(listed)] for at in range(SIZE)], arrow_type(kind))
        data[name] = values.cast(TIMESTAMP) if kind == "timestamp" else values
    return pa.table(data)


ROWS = rows()


@pytest.fixture(scope="module")
def wanted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, ...]]]:
    """What Spark finds, by predicate."""
    file = tmp_path_factory.mktemp("plans") / "rows.parquet"
    pq.write_table(ROWS, file)
    session = spark.newSession()
    session.read.parquet(str(file)).coalesce(1).createOrReplaceTempView("s")
    found: dict[str, list[tuple[int, ...]]] = {}
    for predicates, ids, source in (
        (PREDICATES, ("a", "b"), "s a CROSS JOIN s b"),
        (CHAINS, ("a", "b", "c"), "s a CROSS JOIN s b CROSS JOIN s c"),
    ):
        listed = ", ".join(f"({each}) AS p{at}" for at, each in enumerate(predicates))
        named = ", ".join(f"{alias}.id AS {alias}" for alias in ids)
        told = session.sql(f"SELECT {named}, {listed} FROM {source}").toArrow().to_pylist()
        for at, each in enumerate(predicates):
            found[each] = sorted(tuple(row[alias] for alias in ids) for row in told if row[f"p{at}"])
    return found


def found(home: Path, ticks: int, partitions: int, materialized: bool) -> dict[str, list[tuple[int, ...]]]:
    declared = tuple((name, kind.upper()) for name, kind in COLUMNS.items())
    cuts = tuple(SIZE * at // ticks for at in range(1, ticks))
    two, three = "s [UNBOUNDED] a CROSS JOIN s [UNBOUNDED] b", "CROSS JOIN s [UNBOUNDED] c"
    texts = {each: f"SELECT a.id AS a, b.id AS b FROM {two} WHERE {each}" for each in PREDICATES}
    texts |= {each: f"SELECT a.id AS a, b.id AS b, c.id AS c FROM {two} {three} WHERE {each}" for each in CHAINS}
    queries = tuple(QueryCase(f"q{at}", text, "") for at, text in enumerate(texts.values()))
    shuffled = ROWS.take([(7 * at) % SIZE for at in range(SIZE)])
    engine = InProcess(
        home, Case((StreamCase("s", declared, 60_000_000, shuffled, cuts),), queries, partitions, frozenset(), 1)
    )
    plan = plan_by(engine.problem, lambda options: max(options, key=lambda each: len(each.relations)))
    engine.follow(plan if materialized else simple(engine.problem))
    assert bool(engine.rules.materialized) == materialized
    engine.run()
    told = {}
    for query, each in zip(engine.queries, texts, strict=True):
        files = result_folder(home, query.name, query.sink).glob("*.parquet")
        told[each] = sorted(tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist())
    return told


def check(wanted: dict[str, list[tuple[int, ...]]], told: dict[str, list[tuple[int, ...]]]) -> None:
    different = {
        each: (len(told[each]), len(pairs), sorted(set(told[each]) ^ set(pairs))[:3])
        for each, pairs in wanted.items()
        if told[each] != pairs
    }
    assert different == {}
    assert sum(map(len, wanted.values())) > 1000


Wanted = dict[str, list[tuple[int, ...]]]


def test_keys_and_bands_find_what_spark_finds(wanted: Wanted, tmp_path: Path) -> None:
    check(wanted, found(tmp_path, 2, 3, materialized=True))


@pytest.mark.semantics
@pytest.mark.parametrize("materialized", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("ticks", [1, 6])
def test_keys_and_bands_find_it_in_every_plan(
    wanted: Wanted, tmp_path: Path, ticks: int, partitions: int, materialized: bool
) -> None:
    check(wanted, found(tmp_path, ticks, partitions, materialized))
