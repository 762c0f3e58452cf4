"""Every character that there is, in functions that look at characters: as in Spark, or counted as an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.model import Column, Stream
from watersmeet.sql.query import build_query
from watersmeet.store.evaluate import evaluate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPRESSIONS = [
    "upper(n)",
    "lower(n)",
    "ascii(n)",
    "length(n)",
    "octet_length(n)",
    "left(n, 1)",
    "lpad(n, 3, 'é')",
    "trim(n || 'a' || n)",
    "n RLIKE '^.$'",
    r"n RLIKE '^\\w$'",
    r"n RLIKE '^\\s$'",
    r"n RLIKE '\\d'",
    "n LIKE '_'",
    "instr('é' || n || 'x', 'x')",
]
MAY_FAIL = ("upper(n)", "lower(n)")


@pytest.mark.semantics
def test_no_character_is_treated_otherwise_than_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    letters = [chr(code) for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000]
    pq.write_table(pa.table({"n": letters}), tmp_path / "letters.parquet")
    rows = spark.read.parquet(str(tmp_path / "letters.parquet")).coalesce(1)
    told = rows.selectExpr(*(f"{text} AS c{at}" for at, text in enumerate(EXPRESSIONS))).toArrow()
    stream = Stream("s", (Column("at", "timestamp"), Column("n", "string")), "at")
    for at, text in enumerate(EXPRESSIONS):
        (output,) = build_query("q", f"SELECT {text} AS v FROM s a WINDOW 1 DAY", {"s": stream}).outputs
        values = evaluate(pa.table({"a.n": letters}), [output.expression.text]).values[0].to_pylist()
        pairs = zip(letters, values, told.column(at).to_pylist(), strict=True)
        different = [
            letter for letter, mine, other in pairs if mine != other and not (mine is None and text in MAY_FAIL)
        ]
        assert different == [], text


def test_a_sigma_at_the_end_of_a_word_is_lowered_as_in_spark(spark: SparkSession) -> None:
    """Where it is not clear what a word is, the value counts as an error."""
    parts = ["", "Σ", "Δ", "a", "ΆΣ", "ΣΣ", " ", ",", "-", "1", ".", "é"]
    words = sorted({one + two + three for one in parts for two in parts for three in parts})
    told = spark.createDataFrame([(word,) for word in words], "n string").selectExpr("n", "lower(n) AS v").collect()
    stream = Stream("s", (Column("at", "timestamp"), Column("n", "string")), "at")
    (output,) = build_query("q", "SELECT lower(n) AS v FROM s a WINDOW 1 DAY", {"s": stream}).outputs
    values = evaluate(pa.table({"a.n": [row.n for row in told]}), [output.expression.text]).values[0].to_pylist()
    unclear = [row.n for row, mine in zip(told, values, strict=True) if mine is None]
    assert [(row.n, mine) for row, mine in zip(told, values, strict=True) if mine not in (None, row.v)] == []
    assert all("Σ" in word and set(word) & set("1.é") for word in unclear)
    assert values[[row.n for row in told].index("ΔΣ ")] == "δς "
