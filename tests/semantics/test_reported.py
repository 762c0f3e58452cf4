"""What once gave other answers than Spark, or stopped every query: each is right now, or rejected with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.semantics.random_expressions import COLUMNS, Drawn, output
from tests.semantics.spark_side import Spark
from tests.semantics.test_random import ROWS, differences
from tests.support.declarations import join_form
from watersmeet.errors import SqlError
from watersmeet.model import Column, SparkCall, Stream
from watersmeet.sql.query import build_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RIGHT = [
    # casts and types
    *("CAST(1.9 AS INT)", "CAST(i1 / 2 AS INT)", "CAST(n1 AS INT)", "CAST(ts1 AS BIGINT)", "de1 * de2", "dl1 = de1"),
    *("s1 + s2", "t1 * t2", "f1 + 1", "f1 = 0.1", "CAST(CAST(i1 AS FLOAT) AS DOUBLE)", "CAST(0.1 AS STRING)"),
    # integers and floats
    *(
        "i1 % i2",
        "i1 div i2",
        "pmod(i1, 7)",
        "floor(g1)",
        "floor(dw1)",
        "d1 = d2",
        "d1 > 5",
        "floor(d1)",
        "isnan(NULL)",
    ),
    *("isnan(d1)", "greatest(d1, d2)", "d1 - d2 > 0", "-d1", "d1 <=> d2", "d1 IN (0, d2)"),
    # dates
    *("extract(DOW FROM ts1)", "datediff(HOUR, ts1, ts2)", "timestampdiff(DAY, ts1, ts2)", "unix_seconds(ts1)"),
    *("TIMESTAMP '2024-01-01 02:00:00+02:00' = ts1", "date_format(add_months(dt1, -13), 'yyyyMMdd')"),
    *("CAST(date_add(dt1, 400) AS STRING)", "make_date(s1, 1, 1)", "CAST(n1 AS DATE)"),
    # strings
    *(
        "substring(n1, 0, 2)",
        "left(n1, -1)",
        "n1 RLIKE 'a$'",
        r"n1 LIKE 'a\\%'",
        "lower(n1)",
        "upper('İ')",
        "n1 LIKE n2",
    ),
    *(
        "lower(upper(n1))",
        "n1 ILIKE 'A%'",
        "trim(n1)",
        "CAST(n1 AS DOUBLE)",
        "CAST(concat('+', n1) AS DOUBLE)",
        "CAST(n1 AS BOOLEAN)",
    ),
    # what is used twice and fails
    *("(i1 + i2) * (i1 + i2)", "CAST(n1 AS INT) BETWEEN 1 AND 50", "CAST(n1 AS INT) IN (1, 7)"),
    # arrays
    *("arr1[i1]", "arr1[0]", "arrd1[g1]", "element_at(arr1, i1)", "NOT array_contains(arr1, i1)", "m1['a']"),
    # three-valued logic, and what is computed at all
    *(
        "NOT (i1 + i2 > 0)",
        "i1 + i2 > 0 OR b1",
        "b1 OR i1 + i2 > 0",
        "i1 <> 0 AND 10 div i1 > 1",
        "coalesce(i1, i2 + 1)",
    ),
    *("coalesce(i1 + CAST(n1 AS INT), 5)", "(i1 + CAST(n1 AS INT)) IS NULL", "i1 / CAST(n1 AS INT)", "de1 = NULL"),
    *("nullif(t1, n1)", "nullif(n1, n2)"),
    *("i1 BETWEEN i2 AND CAST(n1 AS INT)", "concat(n1, CAST(n2 AS INT))", "left(string(i1 + i2), i3)", "dt1 = n1"),
]
BY_SPARK = [
    "ln(d1)",
    "dayname(dt1)",
    "date_format(ts1, 'E')",
    "array_position(arr1, 1)",
    "to_json(st1)",
    "array_except(arr1, arr2)",
]
REJECTED = [
    *("CAST('1.5' AS INT)", "CAST(d1 AS STRING)", "de1 / 3", "pmod(i1, i2)", "abs(NULL)"),
    *("extract(SECOND FROM ts1)", "trunc(dt1, 'DAY')", "n1 RLIKE '(?i)A'"),
    *("n1 RLIKE '[a-z&&[^b]]'", r"n1 LIKE '%\\'", "n1 LIKE 'a' ESCAPE '%'"),
    *("(i1, g1) = (i2, g2)", "greatest(n1, i1)", "unix_seconds(dt1)", "unix_date(ts1)"),
    *("-dx1", "abs(dx1)", "negative(dx1)", "m1 <=> NULL", "CASE WHEN NULL THEN i1 ELSE i2 END"),
]


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spark:
    return Spark(spark, ROWS, tmp_path_factory.mktemp("semantics"), COLUMNS)


def test_it_is_as_in_spark(on_spark: Spark) -> None:
    assert differences(on_spark, [Drawn(text, output(text)) for text in RIGHT]) == []


@pytest.mark.parametrize("text", BY_SPARK)
def test_spark_computes_it(text: str) -> None:
    """That its values arrive is shown by test_by_spark.py."""
    assert isinstance(output(text), SparkCall)


@pytest.mark.parametrize("text", REJECTED)
def test_it_is_rejected_with_a_reason(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        output(text)
    assert caught.value.problem
    assert caught.value.hint


def test_names_of_outputs_are_those_of_spark_or_have_to_be_given(spark: SparkSession) -> None:
    stream = Stream("s", (Column("at", "timestamp"), Column("k", "int"), Column("Name", "string")), "at")
    spark.sql("SELECT current_timestamp() AS at, 1 AS k, 'x' AS Name").createOrReplaceTempView("named")

    def names(selected: str) -> list[str]:
        query = build_query("q", f"SELECT {selected} FROM s a WINDOW 1 DAY", {"s": stream})
        return [output.name for output in query.outputs]

    for selected in ("k", "K", "a.K", "name", "A.NAME", "*", "a.*", "`k`", "k AS x", "k + 1 AS `x y`"):
        assert names(selected) == spark.sql(f"SELECT {selected} FROM named a").columns, selected
    for unnamed in ("k + 1", "upper(Name)", "k::STRING", "1", "k, K"):
        with pytest.raises(SqlError):
            names(unnamed)


def test_a_filter_computes_its_conditions_in_the_order_of_the_text() -> None:
    stream = Stream("s", (Column("at", "timestamp"), Column("k", "int")), "at")

    def text(where: str) -> str:
        found = join_form("q", f"SELECT a.k FROM s a WHERE {where} WINDOW 1 DAY", {"s": stream}).aliases[0].filter
        assert found is not None
        return found.text

    assert text("k <> 0 AND 10 div k > 1").startswith('CASE WHEN ("k" <> 0) THEN ')
    assert text("10 div k > 1 AND k <> 0") != text("k <> 0 AND 10 div k > 1")
    assert text("k < 5 AND k > 1") == text("k > 1 AND k < 5")
