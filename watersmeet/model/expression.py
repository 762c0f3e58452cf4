"""Scalar expressions of filters, keys, predicates and computed outputs, as immutable trees.

The SQL layer builds a tree once. Its DuckDB text, the bands and programs of predicates (sql/bands.py, sql/programs.py)
and the comparison tables of filters (store/filters.py) are made of the tree. What only DuckDB has to understand is an
`Sql`: text with operands in between, so that the columns inside can still be found and renamed.

Invariants
 1. Two expressions are equal where their texts and the types of their columns are.
 2. The text stays the same from version to version: columns of materialized stores and layouts in manifests are named
    by it, and names of stores are digests of it (model/identity.py).
 3. `type` is the declared type of the values; "" where no rule gives it and DuckDB was not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache

COMPARISONS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # with the sides exchanged
_BOOLEAN = frozenset((*COMPARISONS, "AND", "OR", "NOT", "BETWEEN"))
INTERVAL = "interval"  # the type of a literal length of time; no column has it
_DUCKDB_TYPES = {
    **{"boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INT", "bigint": "BIGINT"},
    **{"float": "FLOAT", "double": "DOUBLE", "string": "TEXT", "binary": "BLOB", "date": "DATE"},
    **{"timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP"},
}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def member_column(row: str, column: str) -> str:
    """The name of a row's column in a table that holds the columns of several rows."""
    return f"{row}.{column}"


class Expression:
    """A node of a scalar expression. Its text is its identity."""

    type: str
    operands: tuple[Expression, ...]

    @property
    def fallible(self) -> bool:
        """Whether it may raise on some row, where Spark raises too."""
        return any(operand.fallible for operand in self.operands)

    @property
    def never_null(self) -> bool:
        """Whether Spark's optimizer knows that it is NULL for no row; every column may be NULL."""
        return False

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        """The text, with the names of columns that `name` gives."""
        raise NotImplementedError

    def renamed(self, rename: Callable[[ColumnRef], ColumnRef]) -> Expression:
        """The expression over other columns."""
        operands = tuple(operand.renamed(rename) for operand in self.operands)
        return replace(self, operands=operands) if operands else self  # type: ignore[type-var]

    def typed(self, declared: str) -> Expression:
        """The expression with its type, as DuckDB found it."""
        return replace(self, type=declared)  # type: ignore[type-var]

    @cached_property
    def text(self) -> str:
        """The expression in SQL of DuckDB."""
        return self.spelled(lambda column: quoted(column.label))

    @cached_property
    def columns(self) -> tuple[ColumnRef, ...]:
        """The columns that it reads, each once."""
        return tuple(dict.fromkeys(column for operand in self.operands for column in operand.columns))

    @cached_property
    def _types(self) -> tuple[str, ...]:
        return tuple(column.type for column in self.columns)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Expression) and self.text == other.text and self._types == other._types

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return repr(self.text)

    def __identity__(self) -> str:
        return repr(self.text)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnRef(Expression):
    """A column of the one row that an expression is about, or of one of several, which `row` names then."""

    name: str
    type: str
    row: str = ""
    operands = ()

    @property
    def label(self) -> str:
        """The name of the Arrow column that holds the values."""
        return member_column(self.row, self.name) if self.row else self.name

    @property
    def shown(self) -> str:
        """The name that users see."""
        return self.name

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return (self,)

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        return name(self)

    def renamed(self, rename: Callable[[ColumnRef], ColumnRef]) -> Expression:
        return rename(self)


# Thousands of queries read the same few columns: as one value they are pickled once.
column_ref = lru_cache(maxsize=1 << 16)(ColumnRef)


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Expression):
    """A constant: exact numbers (a float only for a double), strings, booleans, and microseconds of type INTERVAL."""

    value: int | Decimal | float | str | bool
    type: str
    sql: str  # as it was written
    operands = ()

    @property
    def number(self) -> int | float:
        """The value of a number to compute with; a decimal may be rounded."""
        return self.value if isinstance(self.value, int) else float(self.value)

    @property
    def never_null(self) -> bool:
        return True

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        return self.sql


@dataclass(frozen=True, eq=False, repr=False)
class Operation(Expression):
    """+, - (also of one operand), *, ABS, comparisons, BETWEEN, NOT, AND and OR of two or more, and () around one."""

    operator: str
    operands: tuple[Expression, ...]
    type: str = ""
    lazy: bool = False  # what stands behind the first operand is computed only where the answer is still open
    filters: bool = False  # of a lazy AND: only whether it is true is asked for

    def __post_init__(self) -> None:
        if not self.type and self.operator in _BOOLEAN:
            object.__setattr__(self, "type", "boolean")

    @property
    def fallible(self) -> bool:
        overflows = self.operator in ("+", "-", "*", "ABS") and self.type not in ("float", "double")
        return overflows or super().fallible

    @property
    def never_null(self) -> bool:
        return not self.type.startswith("decimal") and all(operand.never_null for operand in self.operands)

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        first, *others = (operand.spelled(name) for operand in self.operands)
        if self.operator == "()":
            return f"({first})"
        if self.operator == "ABS":
            return f"ABS({first})"
        if self.operator == "NOT":
            return f"NOT {first}"
        if self.operator == "BETWEEN":
            return f"{first} BETWEEN {others[0]} AND {others[1]}"
        if not others:
            return f"- {first}" if first.startswith("-") else f"-{first}"  # -- begins a comment
        joined = f" {self.operator} ".join((first, *others))
        if self.lazy:  # DuckDB computes all operands of AND and OR, but only those branches of CASE that it needs
            ends = [first, *others[:-1]]
            if self.filters:
                opened = "".join(f"CASE WHEN {end} THEN " for end in ends)
                return f"{opened}{others[-1]}{' ELSE FALSE END' * len(ends)}"
            if self.operator == "AND":
                return f"CASE {' '.join(f'WHEN NOT ({end}) THEN FALSE' for end in ends)} ELSE {joined} END"
            if self.operator == "OR":
                return f"CASE {' '.join(f'WHEN {end} THEN TRUE' for end in ends)} ELSE {joined} END"
            return f"CASE WHEN ({first}) IS NOT NULL THEN {joined} END"
        return joined


@dataclass(frozen=True, eq=False, repr=False)
class Sql(Expression):
    """Text for DuckDB alone, one fragment more than operands."""

    fragments: tuple[str, ...]
    operands: tuple[Expression, ...] = ()
    type: str = ""
    raises: bool = False  # on some values of its operands
    never_null: bool = False

    @property
    def fallible(self) -> bool:
        return self.raises or super().fallible

    def __post_init__(self) -> None:
        assert len(self.fragments) == len(self.operands) + 1, self.fragments

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        pairs = zip(self.operands, self.fragments[1:], strict=True)
        return self.fragments[0] + "".join(operand.spelled(name) + after for operand, after in pairs)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expression):
    """A conversion that DuckDB and Spark do alike. It is `exact` where every value keeps its meaning: INT to BIGINT."""

    operands: tuple[Expression, ...]
    type: str
    exact: bool = False

    @property
    def fallible(self) -> bool:
        return not self.exact or super().fallible

    @property
    def never_null(self) -> bool:
        return self.exact and self.operands[0].never_null

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        return f"CAST({self.operands[0].spelled(name)} AS {duckdb_type(self.type)})"


TRUE = Literal(True, "boolean", "TRUE")


def duckdb_type(declared: str) -> str:
    """DuckDB's name of a simple type or a decimal."""
    return _DUCKDB_TYPES.get(declared) or declared.upper().replace(",", ", ")


def field_of(struct: Expression, name: str, declared: str = "") -> Expression:
    return Sql(("", f".{quoted(name)}"), (struct,), declared)


def call(name: str, arguments: tuple[Expression, ...]) -> Expression:
    return Sql((f"{name}(", *(", " for _ in arguments[1:]), ")"), arguments)


def all_of(conditions: list[Expression]) -> Expression:
    """One or several conditions on a row as one; a row for which one is NULL is as good as out, as in Spark."""
    if len(conditions) == 1:
        return conditions[0]
    lazy = any(condition.fallible for condition in conditions[1:])
    return Operation("AND", tuple(Operation("()", (condition,)) for condition in conditions), lazy=lazy, filters=lazy)


def unnested(expression: Expression) -> Expression:
    """The expression without parentheses around it."""
    while isinstance(expression, Operation) and expression.operator == "()":
        (expression,) = expression.operands
    return expression


def bare(expression: Expression) -> Expression:
    """The expression without parentheses, and without conversions that keep every value."""
    while True:
        expression = unnested(expression)
        if not isinstance(expression, Cast) or not expression.exact:
            return expression
        (expression,) = expression.operands


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """The conditions that have to be true together; of BETWEEN there are two."""
    expression = unnested(expression)
    if isinstance(expression, Operation) and expression.operator == "AND":
        for operand in expression.operands:
            yield from conjuncts(operand)
    elif isinstance(expression, Operation) and expression.operator == "BETWEEN":
        value, low, high = expression.operands
        yield Operation(">=", (value, low))
        yield Operation("<=", (value, high))
    else:
        yield expression


def constant(expression: Expression) -> Literal | None:
    """The number or length of time that an expression is, with whatever signs and parentheses around it."""
    expression = unnested(expression)
    if isinstance(expression, Operation) and expression.operator == "-" and len(expression.operands) == 1:
        inner = constant(expression.operands[0])
        return Literal(-inner.value, inner.type, expression.text) if inner else None  # type: ignore[operator]
    if not isinstance(expression, Literal) or expression.type in ("string", "boolean"):
        return None
    return expression
