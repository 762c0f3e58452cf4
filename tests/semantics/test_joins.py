"""The examples as predicates of two aliases and as join keys, through the engine: indexes, bands, programs, DuckDB."""

from __future__ import annotations

import datetime as dt
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.semantics.spark_side import Spark
from tests.semantics.test_expressions import ALL, ROWS, TOGETHER, output
from tests.semantics.values import COLUMNS, SIZE
from tests.support.cases import Case, QueryCase, StreamCase
from tests.support.in_process import InProcess
from tests.support.parquet_input import EPOCH, TIMESTAMP
from watersmeet.io.sinks import result_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(rf"\b({'|'.join(sorted(COLUMNS, key=len, reverse=True))})\b")
# What only two rows show: differences and sums of NaN and the ends of types.
MORE = [
    "d1 - d2 > 0",
    "d1 - d2 >= 1",
    "d1 - d2 < 1",
    "abs(d1 - d2) < 2.5",
    "abs(d1 - d2) > 2.5",
    "d1 BETWEEN d2 - 1 AND d2 + 1",
    "f1 - f2 > 0",
    "f1 < f2 + 1",
    "i1 + i2 > 0",
    "i1 - i2 < 10",
    "abs(i1 - i2) <= 7",
    "abs(g1 - g2) <= 7",
    "t1 + t2 > 0",
    "s1 * s2 < 9",
    "i1 + 1 < d2",
    "g1 < d2",
    "de1 - de2 < 1.5",
    "ts1 - ts2 < INTERVAL '1' DAY",
    "ts1 BETWEEN ts2 - INTERVAL '1' HOUR AND ts2",
    "NOT (i1 + i2 > 0 AND d1 > d2)",
    "i1 > i2 OR i1 + i2 > 0",
    "d1 = d2 AND i1 = i2",
    "d1 <=> d2",
    "n1 = n2 AND d1 = d2",
    "i1 % 7 = i2 % 7",
]
_FROM = "FROM s [UNBOUNDED] a CROSS JOIN s [UNBOUNDED] b"
PREDICATES = [case for case in ALL if {name[-1] for name in _NAME.findall(case)} == {"1", "2"}]
KEYS = [case for case in ALL if {name[-1] for name in _NAME.findall(case)} == {"1"}]


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spark:
    return Spark(spark, ROWS, tmp_path_factory.mktemp("semantics"))


def of_rows(case: str, one: str = "a", other: str = "b") -> str:
    return _NAME.sub(lambda match: f"{one if match[1].endswith('1') else other}.c_{match[1][:-1]}", case)


def stream() -> StreamCase:
    """One row for each value; row r of ROWS is the pair of rows r // SIZE and r % SIZE."""
    firsts = ROWS.take(pa.array(range(0, SIZE * SIZE, SIZE)))
    data = {
        "ts": pa.array([EPOCH + dt.timedelta(seconds=at) for at in range(SIZE)], TIMESTAMP),
        "id": pa.array(range(SIZE), pa.int64()),
    }
    kinds = {name[:-1]: kind for name, kind in COLUMNS.items()}
    for name, kind in kinds.items():
        values = firsts.column(f"{name}1")
        data[f"c_{name}"] = values.cast(TIMESTAMP) if kind == "timestamp" else values
    columns = tuple((f"c_{name}", kind.upper()) for name, kind in kinds.items())
    return StreamCase("s", columns, 0, pa.table(data), (5, 6, 11))


def differences(on_spark: Spark, home: Path, cases: list[str]) -> list[str]:
    wanted: list[tuple[str, str, set[tuple[int, int]]]] = []
    for begin in range(0, len(cases), TOGETHER):
        part = cases[begin : begin + TOGETHER]
        for case, told in zip(part, on_spark.answers(part), strict=True):
            values = [None if bad else value for bad, value in told]
            if "2" in {name[-1] for name in _NAME.findall(case)}:
                pairs = {divmod(at, SIZE) for at, value in enumerate(values) if value is True}
                wanted.append((case, of_rows(case), pairs))
            else:
                each = ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in values[::SIZE]]
                pairs = {
                    (one, two)
                    for one in range(SIZE)
                    for two in range(SIZE)
                    if each[one] is not None and each[one] == each[two]
                }
                wanted.append((case, f"({of_rows(case)}) = ({of_rows(case, 'b')})", pairs))
    queries = tuple(
        QueryCase(f"q{at}", f"SELECT a.id AS l, b.id AS r {_FROM} WHERE {text}", "")
        for at, (_, text, _) in enumerate(wanted)
    )
    engine = InProcess(home, Case((stream(),), queries, 1, frozenset(), 1))
    engine.run()
    wrong = []
    for query, (case, text, pairs) in zip(engine.queries, wanted, strict=True):
        files = sorted(result_folder(home, query.name, query.sink).glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        found = [(row["l"], row["r"]) for row in rows]
        if sorted(found) != sorted(pairs):
            odd = sorted(set(found) ^ pairs)[:3]
            wrong.append(f"{case} as {text}: {len(found)} pairs here, {len(pairs)} in Spark, among them {odd}")
    return wrong


def usable(cases: list[str]) -> list[str]:
    found = []
    for case in cases:
        kind = output(case).type
        if "2" in {name[-1] for name in _NAME.findall(case)}:
            found.append(case if kind == "boolean" else f"({case}) IS NOT NULL")
        elif "<" not in kind:
            found.append(case)
    return list(dict.fromkeys(found))


def test_a_sample_of_predicates_and_keys_finds_the_pairs_that_spark_finds(on_spark: Spark, tmp_path: Path) -> None:
    cases = usable([*MORE, *PREDICATES[::17], *KEYS[::17], "d1", "f1", "n1", "ts1", "de1"])
    assert differences(on_spark, tmp_path, cases) == []


@pytest.mark.semantics
def test_every_predicate_and_key_finds_the_pairs_that_spark_finds(on_spark: Spark, tmp_path: Path) -> None:
    cases = usable([*MORE, *PREDICATES, *KEYS])
    wrong = differences(on_spark, tmp_path, cases)
    print(f"{len(cases)} predicates and keys over {SIZE * SIZE} pairs each: {len(wrong)} differ")
    assert wrong == []
