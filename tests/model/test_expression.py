"""Expressions: their text, what they read, and when two are one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal

import pytest

from watersmeet.model.expression import (
    TRUE,
    Cast,
    ColumnRef,
    Expression,
    Literal,
    Operation,
    Sql,
    all_of,
    call,
    conjuncts,
    constant,
    field_of,
)

X, Y = ColumnRef("x", "int"), ColumnRef("y", "double")
L, R = ColumnRef("x", "int", "l"), ColumnRef("y", "double", "r")
FIVE = Literal(5, "int", "5")


def op(operator: str, *operands: Expression) -> Operation:
    return Operation(operator, operands)


TEXTS = [
    (X, '"x"'),
    (L, '"l.x"'),
    (ColumnRef('a"b', "int"), '"a""b"'),
    (Literal("it's", "string", "'it''s'"), "'it''s'"),
    (op(">", X, FIVE), '"x" > 5'),
    (op("-", FIVE), "-5"),
    (op("-", op("-", FIVE)), "- -5"),
    (op("-", X, op("()", op("+", Y, FIVE))), '"x" - ("y" + 5)'),
    (op("ABS", op("-", L, R)), 'ABS("l.x" - "r.y")'),
    (op("NOT", op("()", op("OR", op("=", X, FIVE), TRUE))), 'NOT ("x" = 5 OR TRUE)'),
    (op("AND", X, Y, TRUE), '"x" AND "y" AND TRUE'),
    (op("BETWEEN", X, FIVE, Y), '"x" BETWEEN 5 AND "y"'),
    (Sql(("LOWER(", ") || ", ""), (X, Y)), 'LOWER("x") || "y"'),
    (field_of(field_of(X, "f"), 'g"'), '"x"."f"."g"""'),
    (Cast((op("+", X, FIVE),), "decimal(21,2)"), 'CAST("x" + 5 AS DECIMAL(21, 2))'),
    (Cast((X,), "string"), 'CAST("x" AS TEXT)'),
    (call("near", (L, FIVE, R)), 'near("l.x", 5, "r.y")'),
    (all_of([op(">", X, FIVE)]), '"x" > 5'),
    (all_of([op(">", X, FIVE), TRUE]), '("x" > 5) AND (TRUE)'),
]


@pytest.mark.parametrize(("expression", "text"), TEXTS)
def test_text(expression: Expression, text: str) -> None:
    assert expression.text == str(expression) == text
    assert repr(expression) == repr(text), "names of materialized stores are made of it"


@pytest.mark.parametrize(("expression", "text"), TEXTS)
def test_what_was_pickled_is_the_same(expression: Expression, text: str) -> None:
    copied = pickle.loads(pickle.dumps(expression))
    assert copied == expression
    assert hash(copied) == hash(expression)
    assert (copied.text, copied.columns, copied.type) == (text, expression.columns, expression.type)


def test_equal_are_equal_texts_over_columns_of_equal_types() -> None:
    one = op(">", X, FIVE)
    assert {one, op(">", ColumnRef("x", "int"), Literal(5, "int", "5"))} == {one}
    assert one != op(">", ColumnRef("x", "double"), FIVE)
    assert one != op(">", L, FIVE)
    assert one != '"x" > 5'
    assert one == one.typed("boolean")


def test_columns_are_found_wherever_they_stand() -> None:
    inside = Sql(("f(", ", ", ")"), (R, op("()", op("+", L, R))))
    assert op("=", op("-", inside), L).columns == (R, L)
    assert FIVE.columns == ()


def test_renaming_leaves_the_rest() -> None:
    def bare(column: ColumnRef) -> ColumnRef:
        return replace(column, row="")

    condition = op("AND", op("BETWEEN", L, FIVE, R), Sql(("g(", ")"), (field_of(L, "f"),)))
    assert condition.renamed(bare).text == '"x" BETWEEN 5 AND "y" AND g("x"."f")'
    assert condition.text == '"l.x" BETWEEN 5 AND "r.y" AND g("l.x"."f")'
    assert condition.renamed(bare).columns == (X, Y)
    assert condition.spelled(lambda column: f"{column.row}/{column.name}") == 'l/x BETWEEN 5 AND r/y AND g(l/x."f")'


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (X, "int"),
        (FIVE, "int"),
        (op("<=", X, Y), "boolean"),
        (op("NOT", TRUE), "boolean"),
        (op("+", X, Y), ""),
        (op("+", X, Y).typed("double"), "double"),
        (Sql(("now()",)), ""),
        (Cast((X,), "bigint"), "bigint"),
    ],
)
def test_types(expression: Expression, kind: str) -> None:
    assert expression.type == kind


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (FIVE, 5),
        (op("-", op("()", FIVE)), -5),
        (op("()", op("-", op("-", Literal(Decimal("1.5"), "decimal(2,1)", "1.5")))), 1.5),
        (op("-", Literal(7, "interval", "INTERVAL '7' MICROSECOND")), -7),
        (op("+", FIVE, FIVE), None),
        (Literal("5", "string", "'5'"), None),
        (TRUE, None),
        (X, None),
    ],
)
def test_constants(expression: Expression, value: float | None) -> None:
    found = constant(expression)
    assert (found.number if found else None) == value


def test_conjuncts_of_conjuncts() -> None:
    parts = [op(">", X, FIVE), op("OR", X, TRUE), Y]
    nested = op("AND", op("()", op("AND", parts[0], op("()", parts[1]))), parts[2], op("BETWEEN", Y, FIVE, X))
    assert list(conjuncts(nested)) == [*parts, op(">=", Y, FIVE), op("<=", Y, X)]
