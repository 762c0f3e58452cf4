"""A last check of typed expressions, in an empty DuckDB.

Each expression is evaluated over one row of NULLs. That finds constants that can never be computed; and the type that
DuckDB gives has to be the one that Spark's rules gave (sql/functions/), or the expression is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from watersmeet.errors import ModelError
from watersmeet.model import Registered
from watersmeet.model.expression import ColumnRef, Expression
from watersmeet.model.types import arrow_type, type_of_arrow
from watersmeet.sql.functions import TABLE
from watersmeet.sql.functions.by_spark import BY_SPARK
from watersmeet.sql.functions.folding import database
from watersmeet.sql.functions.rejected import ALL, reason
from watersmeet.sql.site import Site
from watersmeet.sql.spark_types import shown
from watersmeet.sql.tree import Call, Scalar
from watersmeet.sql.typing import check_value


class ExpressionCheck:
    """Asks DuckDB for the types of the expressions of one query."""

    def __init__(self, site: Site, registered: Mapping[str, Registered]) -> None:
        self._site = site
        self._registered = registered  # by lower-case name

    def check_calls(self, calls: Iterable[Call]) -> None:
        """Reject calls of functions that are neither proven nor computed by Spark."""
        for call in calls:
            if call.name.lower() in TABLE or call.name.lower() in BY_SPARK:
                continue
            if self.registered(call.name):
                self._site.fail(
                    call.span,
                    f"the registered predicate {call.name} is part of another expression",
                    hint="use it as a condition of its own, combined by AND",
                )
            problem, hint = reason(call.name)
            self._site.fail(call.span, problem, hint=hint)

    def is_registered(self, name: str) -> bool:
        return name.lower() in self._registered

    def registered(self, name: str) -> Registered | None:
        return self._registered.get(name.lower())

    def condition(self, scalar: Scalar, expression: Expression) -> Expression:
        """An expression that has to be true or false."""
        found = self.bound(scalar, expression)
        if found.type != "boolean":
            self._site.fail(
                scalar.span, f"this condition is {found.type.upper()}, not BOOLEAN", hint="compare it with a value"
            )
        return found

    def bound(self, scalar: Scalar, expression: Expression) -> Expression:
        """The expression, which is made of `scalar` or a part of it, with its type; errors point at `scalar`."""
        if isinstance(expression, ColumnRef):
            return expression
        check_value(self._site, scalar, expression)
        try:
            kind = _type_in_duckdb(expression.text, tuple((column.label, column.type) for column in expression.columns))
        except duckdb.Error as error:
            self._site.fail(scalar.span, _reason(str(error)), hint="convert a value to another type with CAST(… AS …)")
        except ModelError as error:
            self._site.adopt(scalar.span, error, hint="CAST the expression to a known type")
        if kind != ("timestamp" if expression.type == "timestamp_ntz" else expression.type):
            self._site.fail(
                scalar.span,
                f"this expression would be {shown(kind)} here and {shown(expression.type)} in Spark",
                hint=f"CAST it to {shown(expression.type)}",
            )
        return expression


@lru_cache(maxsize=1 << 14)
def _type_in_duckdb(text: str, columns: tuple[tuple[str, str], ...]) -> str:
    """Thousands of queries have the same few expressions: each is asked for once."""
    row = {label: pa.nulls(1, arrow_type(kind)) for label, kind in columns}
    with database().cursor() as cursor:
        cursor.register("one_row", pa.table(row or {"": pa.nulls(1)}))
        found: Any = cursor.sql(f"SELECT {text} AS value FROM one_row").to_arrow_table()
    return type_of_arrow(found.schema.field(0).type)


def _reason(message: str) -> str:
    first = message.strip().splitlines()[0]
    first = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", first)
    first = re.sub(r"\s*(You might need to add explicit type casts\.|Did you mean.*|Use TRY.*)$", "", first)
    return first[:1].lower() + first[1:]


def is_built_in(name: str) -> bool:
    """Whether Spark has a function of this name that somebody may mean."""
    return name.lower() in TABLE or name.lower() in BY_SPARK or name.lower() in ALL
