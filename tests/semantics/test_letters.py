"""Every character that there is, in functions that look at characters: as in Spark."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.semantics.letters_of_spark import FILE, LETTERS, tables_of
from watersmeet.letters.case import lower_case, upper_case
from watersmeet.model import Column, Stream
from watersmeet.sql.query import build_query
from watersmeet.store.evaluate import evaluate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMON = LETTERS[:0x20000]
SEED = int(os.environ.get("SEMANTICS_SEED", "0"))
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
    "n ILIKE 'K'",
    "n ILIKE 'ß'",
    "n ILIKE 'i_'",
    "('a' || n) ILIKE 'AΣ'",
    "n ILIKE '_'",
    "CAST(n || 'nf' AS DOUBLE)",
    "CAST('tru' || n AS BOOLEAN)",
]


STREAM = Stream("s", (Column("at", "timestamp"), Column("n", "string")), "at")


def computed(text: str, values: list[str]) -> list[object]:
    (output,) = build_query("q", f"SELECT {text} AS v FROM s a WINDOW 1 DAY", {"s": STREAM}).outputs
    return list(
        evaluate(pa.table({"a.n": pa.array(values, pa.string())}), [output.expression.text]).values[0].to_pylist()
    )


def in_spark(spark: SparkSession, folder: Path, texts: list[str], values: list[str]) -> list[list[object]]:
    pq.write_table(pa.table({"n": values}), folder / "strings.parquet")
    rows = spark.read.parquet(str(folder / "strings.parquet")).coalesce(1)
    told = rows.selectExpr(*(f"{text.replace('CAST', 'try_cast')} AS c{at}" for at, text in enumerate(texts))).toArrow()
    return [column.to_pylist() for column in told.columns]


def different(text: str, values: list[str], told: list[object]) -> list[tuple[str, object, object]]:
    triples = zip(values, computed(text, values), told, strict=True)
    return [(value, mine, other) for value, mine, other in triples if mine != other]


@pytest.mark.semantics
def test_no_character_is_treated_otherwise_than_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    for text, told in zip(EXPRESSIONS, in_spark(spark, tmp_path, EXPRESSIONS, COMMON), strict=True):
        assert different(text, COMMON, told)[:20] == [], text


@pytest.mark.semantics
def test_the_tables_of_letters_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert FILE.read_text() == tables_of(spark, tmp_path), "python -m tests.semantics.letters_of_spark writes them"


@pytest.mark.semantics
@pytest.mark.parametrize("around", ["aΣ{}", "aΣ{}a", "a{}Σ", "{}Σ", "Σ{}Σ", "aΣ'{}", "a'{}Σ", "é{0}Σ{0}", "ŉ{}ŉ"])
def test_any_character_changes_its_case_as_in_spark_beside_a_sigma(
    spark: SparkSession, tmp_path: Path, around: str
) -> None:
    values = [around.format(letter) for letter in LETTERS]
    lowered, raised = in_spark(spark, tmp_path, ["lower(n)", "upper(n)"], values)
    assert different("lower(n)", values, lowered)[:20] == []
    assert different("upper(n)", values, raised)[:20] == []


def strings(seed: int, count: int) -> list[str]:
    """Of letters that become several, make a word or do not end one, and others; many of them beside Σ."""
    chance = random.Random(seed)
    few = [*"ΣΣΣΣaΔÉ'.1 -\u0301\u00adßİﬃᾳʰ😀ǅ\0"]
    return [
        "".join(chance.choice(LETTERS if chance.random() < 0.05 else few) for _ in range(chance.randrange(12)))
        for _ in range(count)
    ]


def check_strings(spark: SparkSession, folder: Path, values: list[str]) -> None:
    texts = ["lower(n)", "upper(n)", "lower(upper(n))", "n ILIKE 'aσ%'", "n NOT ILIKE '%ΔΣ_'"]
    for text, told in zip(texts, in_spark(spark, folder, texts, values), strict=True):
        assert different(text, values, told)[:20] == [], text


def test_some_strings_change_their_case_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    check_strings(spark, tmp_path, strings(0, 5_000))


@pytest.mark.semantics
def test_random_strings_change_their_case_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    check_strings(spark, tmp_path, strings(SEED + 1, 300_000))


def test_a_long_string_among_others_changes_its_case() -> None:
    long = "ΔΣ é" * 400_000
    values = ["ß", long, "", "ΣΔΣ", long]
    assert computed("lower(n)", values) == ["ß", "δς é" * 400_000, "", "σδς", "δς é" * 400_000]
    assert computed("upper(n)", values) == ["SS", "ΔΣ É" * 400_000, "", "ΣΔΣ", "ΔΣ É" * 400_000]


def test_parts_of_arrays_and_nulls_change_their_case() -> None:
    values = pa.chunked_array([pa.array(["x", "é", None, "ŉΔΣ"]).slice(1), pa.array([None, "ς"], pa.string())])
    assert upper_case(values).to_pylist() == ["É", None, "\u02bcNΔΣ", None, "Σ"]
    assert lower_case(values).to_pylist() == ["é", None, "ŉδς", None, "ς"]
    assert upper_case(pa.array([], pa.string())).to_pylist() == []
