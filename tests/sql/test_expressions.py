"""SQL becomes expressions: what has nodes of its own, and what is left to DuckDB."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal

import pytest

from watersmeet.model import ColumnRef, Expression, JoinForm
from watersmeet.model.expression import Literal, Operation, Sql, constant
from watersmeet.store.derived import Block
from watersmeet.store.filters import _ranges

Build = Callable[[str], JoinForm]
X, ST = ColumnRef("x", "int"), ColumnRef("st", "struct<f:int>")


def filter_of(query: Build, condition: str) -> Expression:
    found = query(f"SELECT a.k FROM wide a WHERE {condition} WINDOW 1 DAY").aliases[0].filter
    assert found is not None
    return found


def shape(expression: Expression) -> str:
    """The tree without its leaves."""
    if isinstance(expression, Operation):
        return f"{expression.operator}({', '.join(map(shape, expression.operands))})"
    if isinstance(expression, Sql):
        return f"sql({', '.join(map(shape, expression.operands))})"
    return expression.type


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("x > 5", ">(int, int)"),
        ("5 = x", "=(int, int)"),
        ("x = -5", "=(int, int)"),
        ("x BETWEEN 1 AND 7", "BETWEEN(int, int, int)"),
        ("x = 1 OR y = 2 OR d < 3", "OR(=(int, int), =(int, int), <(double, double))"),
        ("NOT (x = 1 OR ok)", "NOT(()(OR(=(int, int), boolean)))"),
        ("ABS(x - y) * 2 < d", "<(double, double)"),
        (
            "n = 'a' AND ts > tn + INTERVAL '1' DAY",
            "AND(()(=(string, string)), ()(>(timestamp, +(timestamp_ntz, interval))))",
        ),
        ("st.f < 3", "<(sql(struct<f:int>), int)"),
        ("md5(n) = replace(n, 'a', 'b')", "=(sql(string), sql(string, string, string))"),
        ("x IN (1, y) OR x IS NULL", "OR(sql(int, int, int), sql(int))"),
        ("NOT n LIKE 'a%'", "NOT(sql(string, string))"),
        ("coalesce(x + 1, y) > 2", ">(sql(()(+(int, int)), int), int)"),
    ],
)
def test_shapes(query: Build, condition: str, wanted: str) -> None:
    assert shape(filter_of(query, condition)) == wanted


@pytest.mark.parametrize(
    ("written", "value", "kind"),
    [
        ("7", 7, "int"),
        ("007", 7, "int"),
        ("2147483648", 2147483648, "bigint"),
        ("9223372036854775808", 9223372036854775808, "decimal(19,0)"),
        ("1.50", Decimal("1.50"), "decimal(3,2)"),
        ("0.05", Decimal("0.05"), "decimal(2,2)"),
        ("1e3", 1000.0, "double"),
    ],
)
def test_numbers_are_exact(query: Build, written: str, value: object, kind: str) -> None:
    (output,) = query(f"SELECT {written} AS value FROM wide a WINDOW 1 DAY").outputs
    literal = output.expression
    assert isinstance(literal, Literal)
    assert (literal.value, literal.type) == (value, kind)
    compared = filter_of(query, f"d > {written}").operands[1]
    assert isinstance(compared, Literal)
    assert (compared.value, compared.type) == (float(written), "double")


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("INTERVAL '2' SECOND", 2_000_000),
        ("INTERVAL 1.5 SECONDS", 1_500_000),
        ("INTERVAL '3' WEEKS", 3 * 7 * 86_400_000_000),
        ("INTERVAL '-1' DAY", -86_400_000_000),
    ],
)
def test_lengths_of_time(query: Build, written: str, micros: int | None) -> None:
    later = filter_of(query, f"tn > tn + {written}").operands[1]
    found = constant(later.operands[1])
    assert (found.value if found else None) == micros


def test_a_text_that_is_long_or_deep_is_no_problem(query: Build) -> None:
    wide = filter_of(query, " OR ".join(f"x = {number}" for number in range(400)))
    deep = filter_of(query, " + ".join(["x"] * 50) + " > 5")
    for expression in (wide, deep):
        assert pickle.loads(pickle.dumps(expression)) == expression
    assert len(wide.operands) == 400
    assert deep.text == " + ".join(['"x"'] * 50) + " > 5"
    assert deep.columns == (X,)


@pytest.mark.parametrize(
    ("condition", "by_table"),
    [
        ("x > 5", True),
        ("-5 <= x AND y <> 3", True),
        ("(x) = (-(5))", True),
        ("x BETWEEN -1 AND 7 AND k = 3", True),
        ("x > 9223372036854775808", False),
        ("x > 1.5", False),
        ("d > 5", False),
        ("x > y", False),
        ("x = 1 OR x = 2", False),
        ("x > 5 AND n = 'a'", False),
    ],
)
def test_which_filters_need_no_evaluation(query: Build, condition: str, by_table: bool) -> None:
    _, others = _ranges(Block(((filter_of(query, condition),),)))
    assert (not others) is by_table
