"""Columns that Spark computes: calls of functions for which there is no proven rendering (sql/functions/by_spark.py).

For every other part of an expression such a call is a column of its stream, a `SparkCall`. No source has that column:
Spark computes it for the rows of the store, and the buckets keep it (runtime/exec/by_spark.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from watersmeet.model.expression import ColumnRef, Expression, Literal

HIDDEN = "by spark "  # begins the names of these columns, and of no other column of a stream


@dataclass(frozen=True)
class FunctionCall:
    """A call for Spark. Its arguments are calls too, constants, and expressions over the columns of the row.

    Such an expression is proven and raises for no value: the tasks compute it, and Spark gets its values."""

    function: str  # of Spark; the operators are negative, +, - and *, and there is CAST
    arguments: tuple[FunctionCall | Expression, ...]
    type: str

    @property
    def text(self) -> str:
        """The call as users see it, with the column names of the stream."""
        listed = [
            each.text if isinstance(each, FunctionCall) else each.spelled(lambda column: column.shown)
            for each in self.arguments
        ]
        if self.function == "cast":
            return f"CAST({listed[0]} AS {self.type.upper()})"
        if self.function in ("+", "-", "*"):
            return f"({f' {self.function} '.join(listed)})"
        return f"{self.function}({', '.join(listed)})"

    @property
    def identity(self) -> str:
        """The text of everything that the values depend on."""
        listed = [each.identity if isinstance(each, FunctionCall) else _identity(each) for each in self.arguments]
        return f"{self.function}({', '.join(listed)}): {self.type}"

    def inputs(self) -> Iterator[Expression]:
        """The expressions that tasks compute and pass to Spark."""
        for each in self.arguments:
            if isinstance(each, FunctionCall):
                yield from each.inputs()
            elif not is_constant(each):
                yield each


def is_constant(argument: Expression) -> bool:
    """Whether an argument is a constant, which Spark receives as a literal."""
    return isinstance(argument, Literal) and (
        argument.type in ("string", "boolean", "double", "tinyint", "smallint", "int", "bigint")
        or argument.type.startswith("decimal")
    )


def _identity(argument: Expression) -> str:
    columns = ", ".join(f"{column.text} {column.type}" for column in argument.columns)
    return f"{argument.text}: {argument.type} of {columns}"


@dataclass(frozen=True, eq=False, repr=False)
class SparkCall(ColumnRef):
    """The hidden column that holds the values of a call."""

    call: FunctionCall = field(kw_only=True)

    @classmethod
    def of(cls, call: FunctionCall, row: str) -> SparkCall:
        digest = hashlib.sha256(call.identity.encode()).hexdigest()[:16]
        return cls(HIDDEN + digest, call.type, row, call=call)

    @property
    def shown(self) -> str:
        return self.call.text


def without_row(argument: FunctionCall | Expression) -> FunctionCall | Expression:
    """The argument over the columns of the only row that it reads."""
    if isinstance(argument, FunctionCall):
        return replace(argument, arguments=tuple(map(without_row, argument.arguments)))
    return argument.renamed(lambda column: replace(column, row=""))
