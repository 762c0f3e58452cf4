"""Random nested expressions mean what they mean in Spark: type, values, and on how many rows they fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.semantics.random_expressions import COLUMNS, CRASHED, Drawn, drawn, output, rows, with_every_type
from tests.semantics.spark_side import Spark, plain
from tests.semantics.test_expressions import normal
from watersmeet.model import member_column
from watersmeet.model.types import arrow_type
from watersmeet.store.evaluate import evaluate
from watersmeet.store.guard import ExpressionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = 60
SEED = int(os.environ.get("SEMANTICS_SEED", "0"))
ROWS = rows()
MEMBERS = pa.table({member_column("a", name): ROWS.column(name) for name in ROWS.column_names})


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spark:
    return Spark(spark, ROWS, tmp_path_factory.mktemp("semantics"), COLUMNS)


def difference(one: Drawn, told: list[tuple[bool, object]]) -> str | None:
    try:
        done = evaluate(MEMBERS, [one.expression.text])
    except ExpressionError as error:
        return f"{one.text}: stops: {error}"
    (values,) = done.values
    if values.type != arrow_type(one.expression.type) and not pa.types.is_timestamp(values.type):
        return f"{one.text}: {values.type} is no {one.expression.type}"
    mine = [normal(value) for value in plain(values)]
    wanted = [normal(value) for _, value in told]
    different = [at for at, value in enumerate(wanted) if value != mine[at]]
    if different:
        at = different[0]
        read = {column.name: ROWS.column(column.name)[at].as_py() for column in one.expression.columns}
        failed = " (an error)" if told[at][0] else ""
        return f"{one.text}: {mine[at]} here, {wanted[at]}{failed} in Spark, for {read} ({len(different)} rows)"
    count = sum(bad for bad, _ in told)
    if done.failures[0] != count:
        return f"{one.text}: fails on {done.failures[0]} rows here, on {count} in Spark"
    return None


def differences(on_spark: Spark, found: list[Drawn]) -> list[str]:
    wrong, alike = [], []
    for one, kind in zip(found, on_spark.types_of([each.text for each in found]), strict=True):
        if kind == one.expression.type:
            alike.append(one)
        else:
            wrong.append(f"{one.text}: {one.expression.type} here, {kind or 'rejected'} in Spark")
    for begin in range(0, len(alike), TOGETHER):
        part = alike[begin : begin + TOGETHER]
        told = on_spark.answers([each.text for each in part])
        wrong += [problem for one, each in zip(part, told, strict=True) if (problem := difference(one, each))]
    return wrong


def smallest(on_spark: Spark, found: list[Drawn]) -> list[str]:
    """What differs, without what contains something else that does."""
    wrong = {problem.split(": ")[0]: problem for problem in differences(on_spark, found)}
    inner = {part.text: part for one in found if one.text in wrong for part in one.inside()}
    for problem in differences(on_spark, [part for text, part in inner.items() if text not in wrong]):
        wrong[problem.split(": ")[0]] = problem
    guilty = []
    for text, problem in wrong.items():
        one = inner.get(text)
        if one is None or not any(part.text in wrong and part.text != text for part in one.inside()):
            guilty.append(problem)
    return guilty


BESIDE_CONSTANTS = [
    "CAST(n1 AS INT) > 0 AND FALSE",
    "NOT (CAST(n1 AS INT) > 0 AND 1 = 2)",
    "b1 AND (CAST(n1 AS INT) > 0 OR TRUE)",
    "CAST(n1 AS INT) > 0 OR NOT (b1 AND FALSE)",
    "CAST(n1 AS INT) > 0 AND NULL",
    "coalesce(CAST(n1 AS INT) + NULL, 7)",
    "coalesce(CAST(n1 AS INT) = nullif(1, 1), b1)",
    "coalesce(i1 / 0 = (i2 + CAST(NULL AS INT)), b1)",
    "coalesce(CAST(n1 AS INT) IN (NULL), b1)",
    "coalesce(CAST(n1 AS INT) BETWEEN NULL AND NULL, b1)",
    "coalesce(CAST(n1 AS INT) BETWEEN NULL AND 7, b1)",
    "if(CAST(n1 AS INT) > 0, i1, i1)",
    "CASE WHEN b1 THEN 1 WHEN CAST(n1 AS INT) > 0 THEN 2 ELSE 2 END",
    "CASE WHEN CAST(n1 AS INT) > 0 THEN 2 WHEN b1 THEN 1 ELSE 2 END",
    "CASE WHEN CAST(n1 AS INT) > 0 THEN 2 WHEN b1 THEN 2 ELSE 2 END",
    "CASE WHEN CAST(n1 AS INT) > 0 THEN 2 WHEN TRUE THEN 2 ELSE 3 END",
    "coalesce(CAST(n1 AS INT) + CASE WHEN 1 = 1 THEN NULL ELSE i1 END, 7)",
    "coalesce(concat(CAST(CAST(n1 AS INT) AS STRING), n2), 'x')",
    "coalesce(concat(n2, CAST(CAST(n1 AS INT) AS STRING)), 'x')",
    "arr1[4294967296]",
    # tests for NULL of what is never NULL
    "isnull(least(CAST(n1 AS INT), i1, 3))",
    "greatest(CAST(n1 AS INT), 3) IS NOT NULL",
    "isnull(coalesce(CAST(n1 AS BIGINT), 3))",
    "isnull(coalesce(CAST(n1 AS INT), 3) + 1)",
    "isnull(-coalesce(CAST(n1 AS INT), 3))",
    "isnull(coalesce(CAST(n1 AS INT), 3) > 2 AND i1 IS NULL)",
    "nvl2(coalesce(i1 + CAST(n1 AS INT), 3), 1, 2)",
    "CAST(NULL AS INT) <=> least(CAST(n1 AS INT), 3)",
    "NULL <=> least(CAST(n1 AS INT), 3)",
    "isnull(CASE WHEN CAST(n1 AS INT) > 0 THEN 1 ELSE 2 END)",
    "isnull(CASE WHEN CAST(n1 AS INT) > 0 THEN 1 END)",
    "isnull(if(CAST(n1 AS INT) > 0, 1, i1))",
    "isnull(CAST(n1 AS INT) <=> 3)",
    "isnull((CAST(n1 AS INT) > 0) IS TRUE)",
    "isnotnull(isnan(CAST(n1 AS DOUBLE)))",
    "isnull(coalesce(CAST(n1 AS INT), 3) / 2)",
    "isnull(coalesce(CAST(n1 AS INT), 3) % 2)",
    "isnotnull(concat_ws(',', n2, CAST(CAST(n1 AS INT) AS STRING)))",
    "isnull(concat_ws(n2, CAST(CAST(n1 AS INT) AS STRING), 'x'))",
    # sums are computed as they are written
    "isnull((2 + t3) + i1)",
    "isnull(i1 + (t3 + 2))",
]


def test_what_spark_does_not_compute_beside_a_constant_is_not_computed(on_spark: Spark) -> None:
    assert differences(on_spark, [Drawn(text, output(text)) for text in BESIDE_CONSTANTS]) == []


def test_some_random_expressions_mean_what_they_mean_in_spark(on_spark: Spark) -> None:
    found, _ = drawn(7, 60)
    assert smallest(on_spark, found) == []


@pytest.mark.semantics
@pytest.mark.parametrize("seed", range(SEED, SEED + 5))
def test_random_expressions_mean_what_they_mean_in_spark(on_spark: Spark, seed: int) -> None:
    found, rejected = drawn(seed, 800)
    assert [text for text, problem in rejected.items() if problem.startswith(CRASHED)] == []
    print(f"{len(found)} random expressions compared, {len(rejected)} rejected")
    assert smallest(on_spark, found) == []


@pytest.mark.semantics
def test_every_type_is_accepted_as_in_spark_or_rejected(on_spark: Spark) -> None:
    found = with_every_type()
    print(f"{len(found)} expressions compared")
    assert smallest(on_spark, found) == []
