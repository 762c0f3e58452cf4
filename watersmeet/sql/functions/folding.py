"""What Spark's optimizer knows before it sees a row: then it does not compute the rest, which may hold an error.

`error AND FALSE` is FALSE, `error = NULL` is NULL, `if(error, x, x)` is x, and `isnull(least(error, 3))` is FALSE.
"""

from __future__ import annotations

import atexit
from functools import cache, lru_cache
from typing import Any

import duckdb

from watersmeet.model.expression import INTERVAL, Expression, Literal, unnested
from watersmeet.private_duckdb import connect
from watersmeet.sql.functions.rendering import constant_of, null
from watersmeet.sql.spark_types import MONTHS, VOID

_UNTYPED = (VOID, INTERVAL, MONTHS)
_OPEN = object()
_ABSORBING = {"and": False, "or": True}
_TESTS_FOR_NULL = {"is null": False, "isnull": False, "is not null": True, "isnotnull": True}  # of what is never NULL
_NEVER_NULL = {*_TESTS_FOR_NULL, "<=>", "is true", "is false", "isnan", "array"}
_NULL_IF_ALL_ARE = {"least", "greatest", "coalesce", "nvl", "ifnull"}


@cache
def database() -> Any:
    """An empty DuckDB, for constants and types."""
    # Threads of Py4J keep modules alive past the end; DuckDB then complains about a connection left behind.
    atexit.register(database.cache_clear)
    return connect()


def always_null(expression: Expression) -> bool:
    """Whether it is a constant that is NULL, of whatever type."""
    return _value(expression) is None


def always(value: bool, expression: Expression) -> bool:
    """Whether it is a constant that is true, or one that is false."""
    return _value(expression) is value


def folded(name: str, built: Expression, arguments: list[Expression], null_where_an_argument_is: bool) -> Expression:
    """A call as it is built, or the constant that it is whatever the row."""
    if not built.columns or built.type in _UNTYPED:
        return built
    absorbing = _ABSORBING.get(name)
    if absorbing is not None and any(always(absorbing, argument) for argument in arguments):
        return constant_of(absorbing, "boolean")
    if name in _TESTS_FOR_NULL and arguments[0].never_null:
        return constant_of(_TESTS_FOR_NULL[name], "boolean")
    nulls = [always_null(argument) for argument in arguments]
    if name == "<=>" and any(nulls) and any(argument.never_null for argument in arguments):
        return constant_of(False, "boolean")
    no_value = any(nulls) and null_where_an_argument_is
    if no_value or (name == "in" and (nulls[0] or all(nulls[1:]))):
        return null(built.type)
    return built


def never_null(name: str, arguments: list[Expression]) -> bool:
    """Whether a call is NULL for no row, as far as Spark's optimizer sees it."""
    if name == "case":
        return len(arguments) % 2 == 1 and all(value.never_null for value in (*arguments[1::2], arguments[-1]))
    if name in ("if", "nvl2"):
        return all(value.never_null for value in arguments[1:])
    if name == "concat_ws":  # which leaves out what is NULL
        return arguments[0].never_null
    return name in _NEVER_NULL or (name in _NULL_IF_ALL_ARE and any(value.never_null for value in arguments))


def remaining(conditions: list[Expression], values: list[Expression]) -> tuple[list[Expression], list[Expression]]:
    """The branches of CASE that a row may take; `values` has one more where there is an ELSE."""
    kept = [
        at for at, condition in enumerate(conditions) if not always(False, condition) and not always_null(condition)
    ]
    sure = next((place for place, at in enumerate(kept) if always(True, conditions[at])), len(kept))
    otherwise = values[len(conditions) :]
    if sure < len(kept):
        kept, otherwise = kept[:sure], [values[kept[sure]]]
    elif otherwise and all(values[at] == otherwise[0] for at in kept):  # whatever the conditions are
        kept = []
    return [conditions[at] for at in kept], [*(values[at] for at in kept), *otherwise]


def _value(expression: Expression) -> object:
    """NULL, TRUE or FALSE, if it is one of these for every row."""
    inner = unnested(expression)
    if isinstance(inner, Literal):
        return inner.value
    return _computed(inner.text) if not inner.columns and inner.type not in (INTERVAL, MONTHS) else _OPEN


@lru_cache(maxsize=1000)
def _computed(text: str) -> object:
    with database().cursor() as cursor:
        try:
            ((value,),) = cursor.execute(f"SELECT {text}").fetchall()
        except duckdb.Error:
            return _OPEN  # it fails on every row
    return value
