"""Types and checks of scalar expressions, by binding them in an empty DuckDB.

Each expression is evaluated over one row of NULLs: that finds unknown functions, wrong argument types and
literals that cannot be converted, and gives the type of the result, without any data.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from watersmeet.errors import ModelError
from watersmeet.model import Registered
from watersmeet.model.expression import ColumnRef, Expression
from watersmeet.model.types import arrow_type, type_of_arrow
from watersmeet.sql.scope import did_you_mean
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Scalar, Unsupported
from watersmeet.sql.unsupported import reject

# DuckDB has them, but their values are its own and may change with its version.
_OWN_VALUES = {"hash", "md5_number", "md5_number_lower", "md5_number_upper"}


class Binder:
    """Binds the expressions of one query."""

    def __init__(self, site: Site, registered: Mapping[str, Registered]) -> None:
        self._site = site
        self._registered = registered  # by lower-case name
        self._cursor: Any = _database().cursor()

    def __enter__(self) -> Binder:
        return self

    def __exit__(self, *error: object) -> None:
        self._cursor.close()

    def check_functions(self, scalar: Scalar) -> None:
        """Reject calls that only DuckDB could explain: unknown ones, aggregates, and those that change with time."""
        known = _functions()
        for call in scalar.functions():
            kinds = known.get(call.text.lower(), frozenset())
            if "stable" in kinds and call.text.lower() not in _OWN_VALUES:
                continue
            if "aggregate" in kinds:
                reject(self._site, Unsupported("aggregate", call.text, call.span))
            if "changing" in kinds or call.text.lower() in _TIMELY:
                reject(self._site, Unsupported("not deterministic", call.text, call.span))
            if self.registered(call.text):
                self._site.fail(
                    call.span,
                    f"the registered predicate {call.text} is part of another expression",
                    hint="use it as a condition of its own, combined by AND",
                )
            usable = [name for name, kind in known.items() if "stable" in kind and name not in _OWN_VALUES]
            self._site.fail(
                call.span,
                f"unknown function {call.text}",
                hint=did_you_mean(call.text, usable) or "use one of Spark's built-in scalar functions",
            )

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
        row = {column.label: pa.nulls(1, arrow_type(column.type)) for column in expression.columns}
        try:
            self._cursor.register("one_row", pa.table(row or {"": pa.nulls(1)}))
            found = self._cursor.sql(f"SELECT {expression.text} AS value FROM one_row").to_arrow_table()
        except duckdb.Error as error:
            self._site.fail(scalar.span, _reason(str(error)), hint="convert a value to another type with CAST(… AS …)")
        kind = found.schema.field(0).type
        if pa.types.is_interval(kind) or pa.types.is_duration(kind):
            self._site.fail(
                scalar.span, "an INTERVAL can be neither an output nor a key", hint="use timestampdiff(SECOND, …, …)"
            )
        try:
            return expression.typed(type_of_arrow(kind))
        except ModelError as error:
            self._site.adopt(scalar.span, error, hint="CAST the expression to a known type")


# Functions of Spark that no other part recognizes and that depend on the moment or on the machine.
_TIMELY = {"monotonically_increasing_id", "spark_partition_id", "input_file_name", "sysdate", "randstr", "uniform"}


def _reason(message: str) -> str:
    first = message.strip().splitlines()[0]
    first = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", first)
    first = re.sub(r"\s*(You might need to add explicit type casts\.|Did you mean.*|Use TRY.*)$", "", first)
    first = first.replace("STRING_LITERAL", "VARCHAR").replace("INTEGER_LITERAL", "INTEGER")
    missing = re.match(r"Scalar Function with name (\S+) does not exist", first)
    return f"function {missing[1]} is not available" if missing else first[:1].lower() + first[1:]


@cache
def _database() -> Any:
    # Nothing may be downloaded or loaded behind the user's back: what is built in has to do.
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "threads": "1",
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    # Threads of Py4J keep modules alive past the end; DuckDB then complains about a connection left behind.
    atexit.register(_database.cache_clear)
    return connection


@cache
def _functions() -> dict[str, frozenset[str]]:
    """What DuckDB has under each name: stable or changing scalar functions, aggregates."""
    rows = (
        _database()
        .cursor()
        .execute(
            "SELECT DISTINCT lower(function_name), function_type, stability FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate')"
        )
    )
    known: dict[str, set[str]] = {}
    for name, kind, stability in rows.fetchall():
        label = "aggregate" if kind == "aggregate" else "stable" if stability == "CONSISTENT" else "changing"
        known.setdefault(name, set()).add(label)
    return {name: frozenset(kinds) for name, kinds in known.items()}


def is_built_in(name: str) -> bool:
    """Whether DuckDB has something under this name, whatever it is."""
    return name.lower() in _functions() or name.lower() in _TIMELY
