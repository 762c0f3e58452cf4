"""What Spark computes for an engine is what it computes in a batch, as output, filter and key. It never raises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.semantics.examples import SPARK_ENTRIES
from tests.semantics.spark_side import Spark, plain
from tests.semantics.test_expressions import ROWS, TOGETHER, normal, qualified
from tests.semantics.values import COLUMNS, expanded
from tests.support.parquet_input import TIMESTAMP, seconds_after_epoch
from watersmeet import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_NAMES = [
    entry.examples[0].replace(f"{entry.names[0]}(", f"{name}(") for entry in SPARK_ENTRIES for name in entry.names[1:]
]
MORE = [
    "exp(-{double})",
    "exp(ln({double}) * 0.5e0 + abs({double2}))",
    "upper(reverse({string})) = 'CBA'",
    "round(exp({float}), 2) + 1",
    "coalesce(ln({int}), -1)",
    "CASE WHEN exp({double}) > 1 THEN initcap({string}) ELSE lower({string2}) END",
    "hash(length({string}), {int} > 0)",
    "split({string}, ',')[0]",
    "date_format(try_to_timestamp({string}, 'yyyy-MM-dd'), 'EEE')",
    "try_divide(try_add({int}, {int2}), 2)",
    "array_join(map_keys({map}), ',') = 'a'",
]
EXAMPLES = [*(example for entry in SPARK_ENTRIES for example in entry.examples), *OTHER_NAMES, *MORE]
ALL = list(dict.fromkeys(case for example in EXAMPLES for case in expanded(example)))
SAMPLE = [*ALL[::9], *(case for example in MORE for case in expanded(example))]
EIGHTH = "a.id % 8 = 3 AND b.id % 8 = 3"


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spark:
    return Spark(spark, ROWS, tmp_path_factory.mktemp("semantics"))


def write_rows(folder: Path) -> None:
    """All rows in three files."""
    folder.mkdir()
    instants = [name for name, kind in COLUMNS.items() if kind == "timestamp"]
    rows = ROWS
    for name in instants:
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows.column(name).cast(TIMESTAMP))
    rows = rows.append_column("at", seconds_after_epoch(range(len(rows))))
    for number, (begin, end) in enumerate(((0, 100), (100, 101), (101, len(rows)))):
        pq.write_table(rows.slice(begin, end - begin), folder / f"{number}.parquet")


def run(spark: SparkSession, folder: Path, cases: list[str], kinds: dict[str, str]) -> Engine:
    write_rows(folder / "in")
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    engine = Engine(spark, folder / "home", max_terms=100_000, max_query_length=1_000_000, max_queries=10_000)
    engine.sql(f"CREATE STREAM w (at TIMESTAMP, id BIGINT, {columns}) TIMESTAMP BY at FROM parquet '{folder}/in';")
    for begin in range(0, len(cases), TOGETHER):
        outputs = (f"{case} AS v{at}" for at, case in enumerate(cases[begin : begin + TOGETHER], begin))
        engine.query(f"outputs{begin}", f"SELECT a.id, {', '.join(outputs)} FROM w [UNBOUNDED] a")
    for at, case in enumerate(cases):
        condition = f"({case})" if kinds[case] == "boolean" else f"({case}) IS NOT NULL"
        engine.query(f"filter{at}", f"SELECT a.id FROM w [UNBOUNDED] a WHERE {condition}")
        if "<" not in kinds[case]:
            equal = f"{qualified(case, 'a')} = {qualified(case, 'b')}"
            text = f"SELECT a.id AS l, b.id AS r FROM w [UNBOUNDED] a, w [UNBOUNDED] b WHERE {equal} AND {EIGHTH}"
            engine.query(f"key{at}", text)
    engine.run_once()
    return engine


def results(engine: Engine, query: str) -> pa.Table:
    files = sorted((engine.home / "results" / query).glob("*.parquet"))
    return pa.concat_tables(pq.read_table(file) for file in files) if files else pa.table({})


def differences(spark: SparkSession, on_spark: Spark, folder: Path, cases: list[str]) -> list[str]:
    kinds = {case: on_spark.type_of(case) or "" for case in cases}
    wrong = [f"{case}: rejected by Spark" for case in cases if not kinds[case]]
    with run(spark, folder, cases, kinds) as engine:
        for begin in range(0, len(cases), TOGETHER):
            part = cases[begin : begin + TOGETHER]
            outputs = {output.name: output.type for output in engine[f"outputs{begin}"].query.outputs}
            found = results(engine, f"outputs{begin}").sort_by("id")
            for at, (case, told) in enumerate(zip(part, on_spark.answers(part), strict=True), begin):
                if any(failed for failed, _ in told):
                    wrong.append(f"{case}: raises in Spark")
                if outputs[f"v{at}"] != kinds[case]:
                    wrong.append(f"{case}: {outputs[f'v{at}']} here, {kinds[case]} in Spark")
                values = [normal(value) for _, value in told]
                mine = [normal(value) for value in plain(found.column(f"v{at}").combine_chunks())]
                if mine != values:
                    row = next(row for row, value in enumerate(values) if mine[row] != value)
                    wrong.append(f"{case}: {mine[row]} here, {values[row]} in Spark, in row {row}")
                wrong += _places(engine, at, case, kinds[case], values)
    return wrong


def _places(engine: Engine, at: int, case: str, kind: str, values: list[object]) -> list[str]:
    """The same as a filter and as a key."""
    wrong = []
    wanted = {row for row, value in enumerate(values) if (value is True if kind == "boolean" else value is not None)}
    table = results(engine, f"filter{at}")
    if sorted(table.column("id").to_pylist() if len(table) else []) != sorted(wanted):
        wrong.append(f"{case}: other rows as a filter")
    if "<" not in kind:
        keys = {row: _key(values[row]) for row in range(3, len(values), 8) if values[row] is not None}
        pairs = sorted((one, two) for one in keys for two in keys if keys[one] == keys[two])
        table = results(engine, f"key{at}")
        found = sorted((row["l"], row["r"]) for row in table.to_pylist())
        if found != pairs:
            wrong.append(f"{case}: {len(found)} pairs as a key here, {len(pairs)} in Spark")
    return wrong


def _key(value: object) -> object:
    return value[0] if isinstance(value, tuple) else value  # -0.0 is 0.0


def test_a_sample_of_what_spark_computes_is_what_spark_computes(
    spark: SparkSession, on_spark: Spark, tmp_path: Path
) -> None:
    assert differences(spark, on_spark, tmp_path, SAMPLE) == []


@pytest.mark.semantics
def test_all_that_spark_computes_is_what_spark_computes(spark: SparkSession, on_spark: Spark, tmp_path: Path) -> None:
    wrong = differences(spark, on_spark, tmp_path, ALL)
    print(f"{len(ALL)} expressions of {len(SPARK_ENTRIES)} functions computed by Spark: {len(wrong)} differ")
    assert wrong == []
