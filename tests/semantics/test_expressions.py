"""Every example of the table of functions means what it means in Spark: type, values and errors, on extreme values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.semantics.examples import CASTS, ENTRIES
from tests.semantics.spark_side import Spark, plain
from tests.semantics.values import COLUMNS, expanded, table
from tests.support.declarations import join_form
from watersmeet.errors import SqlError
from watersmeet.model import Column, Expression, Stream, member_column
from watersmeet.sql.query import build_query
from watersmeet.store.codes import encode
from watersmeet.store.derived import Block
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import evaluate_block

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = 100  # expressions in one Spark job
OTHER_NAMES = [
    example.replace(f"{entry.names[0]}(", f"{name}(")
    for entry in ENTRIES
    for name in entry.names[1:]
    for example in entry.examples[:1]
    if example.startswith(f"{entry.names[0]}(") and " FROM " not in example and name.isidentifier()
]
EXAMPLES = list(dict.fromkeys([*(example for entry in ENTRIES for example in entry.examples), *CASTS, *OTHER_NAMES]))
ALL = [case for example in EXAMPLES for case in expanded(example)]
SAMPLE = ALL[:: max(1, len(ALL) // 60)]
ROWS = table()
WIDE = Stream(
    "wide",
    (Column("at", "timestamp"), Column("id", "bigint"), *(Column(name, kind) for name, kind in COLUMNS.items())),
    "at",
)


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Spark:
    return Spark(spark, ROWS, tmp_path_factory.mktemp("semantics"))


def output(expression: str) -> Expression:
    query = build_query("q", f"SELECT {expression} AS v FROM wide a WINDOW 1 DAY", {"wide": WIDE})
    return query.outputs[0].expression


def normal(value: object) -> object:
    """A value that can be compared with ==; NaN is itself and -0.0 is told from 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return [normal(each) for each in value] if isinstance(value, list) else value


def ours(expression: Expression) -> list[tuple[bool, object]]:
    rows = pa.table({member_column("a", name): ROWS.column(name) for name in ROWS.column_names})
    done = evaluate(rows, [expression.text])
    values = plain(done.values[0])
    failed = [False] * len(ROWS)
    if done.failures[0]:
        alone = {}  # by what it reads: most rows repeat it
        for at in (at for at, value in enumerate(values) if value is None):
            key = str([rows.column(column.label)[at] for column in expression.columns])
            if key not in alone:
                alone[key] = bool(evaluate(rows.slice(at, 1), [expression.text]).failures[0])
            failed[at] = alone[key]
    return [(bad, normal(value)) for bad, value in zip(failed, values, strict=True)]


def differences(on_spark: Spark, cases: list[str]) -> list[str]:
    """What is wrong with each case; an expression that is rejected here, or in Spark, is wrong in the table."""
    wrong, built = [], []
    for case in cases:
        try:
            found = output(case)
        except SqlError as error:
            wrong.append(f"{case}: rejected here: {error.problem}")
            continue
        kind = on_spark.type_of(case)
        if kind != found.type:
            wrong.append(f"{case}: {found.type} here, {kind} in Spark")
        else:
            built.append((case, found))
    for begin in range(0, len(built), TOGETHER):
        part = built[begin : begin + TOGETHER]
        for (case, found), told in zip(part, on_spark.answers([case for case, _ in part]), strict=True):
            mine = ours(found)
            different = [at for at, (bad, value) in enumerate(told) if (bad, normal(value)) != mine[at]]
            if different:
                at = different[0]
                read = {column.name: ROWS.column(column.name)[at].as_py() for column in found.columns}
                wrong.append(f"{case}: {mine[at]} here, {told[at]} in Spark, for {read} ({len(different)} rows)")
            wrong += other_places(case, found, told)
    return wrong


def other_places(case: str, found: Expression, told: list[tuple[bool, object]]) -> list[str]:
    """The same expression as a filter and as a key."""
    wrong = []
    values = [None if bad else value for bad, value in told]
    if found.type == "boolean":
        wanted = (
            join_form("q", f"SELECT a.id FROM wide a WHERE ({case}) WINDOW 1 DAY", {"wide": WIDE}).aliases[0].filter
        )
        if wanted is not None:
            words, _ = evaluate_block(ROWS.combine_chunks().to_batches()[0], Block(((wanted,),)))
            if [bool(word) for word in words] != [value is True for value in values]:
                wrong.append(f"{case}: other rows as a filter")
    if "<" not in found.type and found.columns:
        swapped = case.replace("a.", "b.")
        (equality,) = join_form(
            "q",
            f"SELECT a.id FROM wide a, wide b WHERE {qualified(case, 'a')} = {qualified(swapped, 'b')} WINDOW 1 DAY",
            {"wide": WIDE},
        ).equalities
        done = evaluate(ROWS, [equality.left_key.expression.text]).values[0]
        codes = encode(done, equality.left_key.type)
        valid = codes.valid if len(codes.valid) else np.ones(len(ROWS), np.uint8)
        keys: dict[object, int] = {}
        for at, value in enumerate(values):
            if (value is not None) != bool(valid[at]):
                wrong.append(f"{case}: NULL as a key where it has a value, or the other way")
                break
            same = "NaN" if isinstance(value, float) and math.isnan(value) else value
            if value is not None and keys.setdefault(same, int(codes.values[at])) != codes.values[at]:
                wrong.append(f"{case}: equal values have other codes as keys")
                break
        if len(set(keys.values())) != len(keys):
            wrong.append(f"{case}: different values have one code as keys")
    return wrong


def qualified(case: str, alias: str) -> str:
    import re  # noqa: PLC0415

    names = "|".join(sorted(COLUMNS, key=len, reverse=True))
    return "(" + re.sub(rf"\b({names})\b", rf"{alias}.\1", case) + ")"


def test_a_sample_of_expressions_means_what_it_means_in_spark(on_spark: Spark) -> None:
    assert differences(on_spark, SAMPLE) == []


@pytest.mark.semantics
def test_every_expression_means_what_it_means_in_spark(on_spark: Spark, tmp_path: Path) -> None:
    wrong = differences(on_spark, ALL)
    print(f"{len(ALL)} expressions of {len(ENTRIES)} functions, over {len(ROWS)} rows each: {len(wrong)} differ")
    assert wrong == []
