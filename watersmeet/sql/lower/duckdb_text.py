"""A windowed query as SQL of DuckDB over the rows of a window, where every part of it is proven.

Scalars are the typed expressions of sql/functions/, so that they mean what they mean in Spark; what can fail for a
value is NULL where it does, operator by operator, as in the text for Spark. The rest is relational: names, joins,
subqueries. TRY(…) may not contain aggregates, functions with OVER or subqueries, so that these become columns of a
SELECT of their own, one level below what is computed of them:

    SELECT TRY("g0"."c1" + 1) AS … FROM (SELECT key AS "c0", count(*) AS "c1" FROM … GROUP BY 1) AS "g0" WHERE having

-0.0 is 0.0 where values are grouped, compared as a whole or ordered. The ends of the window are variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import duckdb

from watersmeet.errors import SqlError
from watersmeet.model import ColumnRef, Expression, Output, Stream
from watersmeet.model.expression import column_ref, duckdb_type, quoted
from watersmeet.model.forms import END, START, TaskSql, View
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.folding import database
from watersmeet.sql.functions.rendering import sql
from watersmeet.sql.lower.combine import FACTORS, combined, plain_name
from watersmeet.sql.lower.final import FewRowsTyping
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.relational_text import Named, RelationalText, direction, is_constant, views_of
from watersmeet.sql.resolve.resolved import (
    Bound,
    Nested,
    OutColumn,
    ResolvedQuery,
    ResolvedSelect,
    ResolvedSetOperation,
    Scan,
    Subselect,
    WindowEnd,
    all_nodes,
    sources,
)
from watersmeet.sql.resolve.typing import only_spark
from watersmeet.sql.spark_types import FLOATS, Unsupported, comparable, is_decimal, is_exact
from watersmeet.sql.tree import Aggregate, Call, Over, Parenthesized, Scalar, SortKey, Star, bare

_WRITTEN = "\n"  # in place of a row: the name of the column is text
_RANKS = {"rank": "int", "dense_rank": "int", "percent_rank": "double", "cume_dist": "double"}
_BITS = ("bit_and", "bit_or", "bit_xor")


def task_sql(lowering: Lowering, query: ResolvedQuery) -> TaskSql:
    """The query as SQL of DuckDB; raises DoesNotFit."""
    views = views_of(query)
    outputs = tuple(Output(each.name, each.type, ColumnRef(each.name, each.type)) for each in query.outputs)
    try:
        text = _Writer(lowering, views).query(query)
    except SqlError as error:
        raise DoesNotFit(f"outside of Spark, {error.problem}") from None
    except Unsupported as error:
        raise DoesNotFit(f"outside of Spark, {error.problem}") from None
    found = _types_in_duckdb(f"WITH {', '.join(_empty(lowering.streams[view.stream], view) for view in views)} {text}")
    for output, kind in zip(outputs, found, strict=True):
        if kind != _IN_DUCKDB.get(output.type, output.type.upper()):
            raise DoesNotFit(f"outside of Spark, {output.name} would be {kind}")
    return TaskSql(text, views, outputs)


_IN_DUCKDB = {"int": "INTEGER", "string": "VARCHAR", "binary": "BLOB", "timestamp_ntz": "TIMESTAMP"}


def _empty(stream: Stream, view: View) -> str:
    """A view without rows."""
    declared = {column.name: column.type for column in stream.columns}
    columns = [f"CAST(NULL AS {duckdb_type(declared[name])}) AS {quoted(name)}" for name in view.columns]
    return f"{quoted(view.name)} AS (SELECT {', '.join(columns or ['NULL'])} WHERE FALSE)"


@lru_cache(maxsize=1 << 10)
def _types_in_duckdb(text: str) -> tuple[str, ...]:
    """The types of the columns of a query, which is not computed."""
    with database().cursor() as cursor:
        cursor.execute(f"SET VARIABLE {START} = CAST(0 AS BIGINT); SET VARIABLE {END} = CAST(0 AS BIGINT)")
        try:
            return tuple(str(kind).replace(" ", "") for kind in cursor.sql(text).types)
        except duckdb.Error as problem:
            raise DoesNotFit(f"a task cannot compute it ({str(problem).splitlines()[0][:100]})") from None


class _TaskTyping(FewRowsTyping):
    """Typing in which what fails for a value is NULL, operator by operator."""

    def call(self, node: Call, arguments: list[Expression]) -> Expression:
        found = super().call(node, arguments)
        # A sum or a product of decimals has as many digits as it needs.
        has_room = node.name in ("+", "-", "*") and is_decimal(found.type) and all(is_exact(a.type) for a in arguments)
        return found if has_room else _tried(found)

    def cast(self, value: Expression, kind: str, safe: bool) -> Expression:
        return _tried(super().cast(value, kind, safe))


def _tried(expression: Expression) -> Expression:
    return _written(f"TRY({_spelled(expression)})", expression.type) if expression.fallible else expression


def _as_key(expression: Expression) -> Expression:
    """A value that is grouped by, or compared as a whole: -0.0 is 0.0 there, as in Spark."""
    if expression.type not in FLOATS:
        return expression
    zero = f"CASE WHEN {{0}} = 0 THEN CAST(0 AS {expression.type.upper()}) ELSE {{0}} END"
    return sql(zero, expression.type, expression)


def _spelled(expression: Expression) -> str:
    return expression.spelled(_name)


def _name(column: ColumnRef) -> str:
    if column.row == _WRITTEN:
        return column.name
    return f"{quoted(column.row)}.{quoted(column.name)}" if column.row else quoted(column.name)


def _written(text: str, kind: str) -> ColumnRef:
    """Text as an expression: a column, so that it is never taken for a constant."""
    return ColumnRef(text, kind, _WRITTEN)


class _Level:
    """The columns of a SELECT one level below, each once."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._names: dict[str, str] = {}

    def add(self, text: str, kind: str) -> ColumnRef:
        return ColumnRef(self._names.setdefault(text, f"c{len(self._names)}"), kind, self.label)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def listed(self) -> list[str]:
        return [f"{text} AS {quoted(name)}" for text, name in self._names.items()]


class _Writer(RelationalText):
    joins: ClassVar[Mapping[str, str]] = {
        **{"cross": "CROSS JOIN", "inner": "INNER JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN"},
        **{"full": "FULL JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN"},
    }

    def __init__(self, lowering: Lowering, views: Sequence[View]) -> None:
        super().__init__(views)
        self._types = lowering.resolver.typing
        self._typing = _TaskTyping(lowering.site, self._leaf)
        self._below: list[Mapping[Scalar, Expression]] = []  # what is computed already, in levels below
        self._levels = 0
        self._tested: set[int] = set()  # scalars that a condition is made of, by identity

    # Queries -------------------------------------------------------------------------------------

    def quoted(self, name: str) -> str:
        return quoted(name)

    def value(self, node: Scalar) -> str:
        return _spelled(self._expression(node))

    def condition(self, node: Scalar) -> str:
        return _spelled(self._condition(node))

    def tie(self, output: OutColumn) -> str:
        return f"{_spelled(_as_key(ColumnRef(output.label, output.type)))} ASC NULLS FIRST"

    def side(self, query: ResolvedQuery, operation: ResolvedSetOperation) -> str:
        label, listed = self._new_label(), []
        for one, output in zip(query.outputs, operation.outputs, strict=True):
            value = _tried(cast(ColumnRef(one.label, one.type, label), output.type))
            listed.append(value if operation.operator == "UNION ALL" else _as_key(value))
        names = [output.label for output in operation.left.outputs]
        columns = ", ".join(f"{_spelled(each)} AS {quoted(name)}" for each, name in zip(listed, names, strict=True))
        return f"SELECT {columns} FROM ({self.query(query)}) AS {quoted(label)}"

    def select(self, query: ResolvedSelect, more: Named = ()) -> str:
        outside = len(self._below)
        body = f" FROM {self.source(query.source)}" if query.source is not None else ""
        if query.where is not None:
            body += f" WHERE {self.condition(query.where)}"
        named = [*((output.label, value) for output, value in zip(query.outputs, query.values, strict=True)), *more]
        roots = [value for _, value in named]
        if query.aggregated:
            body = self._grouped(query, roots, body)
        if any(isinstance(node, Over) for root in roots for node in root.walk()):
            body = self._numbered(query, roots, body)
        values = [self._expression(root) for root in roots]
        if query.distinct:
            values = [_as_key(value) for value in values]
        listed = ", ".join(
            f"{_spelled(value)} AS {quoted(name)}" for value, (name, _) in zip(values, named, strict=True)
        )
        del self._below[outside:]
        return f"SELECT {'DISTINCT ' if query.distinct else ''}{listed}{body}"

    def _grouped(self, query: ResolvedSelect, roots: Iterable[Scalar], body: str) -> str:
        """Keys and aggregates as columns; HAVING is a condition on these."""
        level, found = _Level(self._new_label()), dict[Scalar, Expression]()
        for key in query.group or ():
            if not is_constant(key):
                value = _as_key(self._expression(key))
                found[bare(key)] = level.add(_spelled(value), value.type)
        keys = len(level)
        having = [query.having] if query.having is not None else []
        for node in (below for root in (*roots, *having) for below in root.walk()):
            if isinstance(node, Aggregate) and bare(node) not in found:
                found[bare(node)] = self._aggregate(node, level, self._types.aggregate(node).type)
        if not len(level):
            level.add("count(*)", "bigint")
        grouped = f" GROUP BY {', '.join(str(at + 1) for at in range(keys))}" if keys else ""
        if query.group is not None and not keys:
            grouped = " HAVING count(*) > 0"
        self._below.append(found)
        text = f" FROM (SELECT {', '.join(level.listed)}{body}{grouped}) AS {quoted(level.label)}"
        return f"{text} WHERE {self.condition(query.having)}" if query.having is not None else text

    def _numbered(self, query: ResolvedSelect, roots: Sequence[Scalar], body: str) -> str:
        """Functions with OVER as columns, beside all others that are read."""
        level, found = _Level(self._new_label()), dict[Scalar, Expression]()
        read = () if query.aggregated else sources(query)  # of groups only keys and aggregates are read
        own = {source.label for source in read if isinstance(source, Scan | Subselect)}
        for node in (below for root in roots for below in root.walk()):
            if isinstance(node, Over):
                found[bare(node)] = self._over(node, level)
            elif isinstance(node, Aggregate):
                known = self._known(node)
                assert known is not None
                found[bare(node)] = level.add(_spelled(known), known.type)
        for node in (below for root in roots for below in _with_subqueries(root)):
            if isinstance(node, Bound) and (node.relation in own or self._known(node) is not None):
                found[bare(node)] = level.add(self.value(node), node.type)
        for below in self._below[-1:] if query.aggregated else ():  # keys that are computed
            found |= {key: level.add(_spelled(value), value.type) for key, value in below.items() if key not in found}
        self._below.append(found)
        return f" FROM (SELECT {', '.join(level.listed)}{body}) AS {quoted(level.label)}"

    def _new_label(self) -> str:
        self._levels += 1
        return f"\r{self._levels}"  # no label of a query has this character

    # Scalars -------------------------------------------------------------------------------------

    def _expression(self, node: Scalar) -> Expression:
        found = self._typing.whole(node)
        if only_spark(found):
            raise DoesNotFit("it has a function that only Spark computes")
        return found

    def _condition(self, node: Scalar) -> Expression:
        self._tested.update(map(id, _tested(node)))
        found = self._expression(node)
        return found if found.type == "boolean" else cast(found, "boolean")

    def _known(self, node: Scalar) -> Expression | None:
        plain = bare(node) if self._below else node
        return next((below[plain] for below in reversed(self._below) if plain in below), None)

    def _leaf(self, node: Scalar) -> Expression | None:
        known = self._known(node)
        if known is not None:
            return known
        match node:
            case Bound():
                if "<" in node.type:
                    raise DoesNotFit(f"{node.column} has a nested type")
                return column_ref(node.column, node.type, node.relation)
            case WindowEnd():
                return _written(f"make_timestamp(getvariable('{END if node.end else START}'))", "timestamp")
            case Nested():
                return self._nested(node)
            case Over():
                raise DoesNotFit("a function with OVER is no output of its own")
        assert not isinstance(node, Aggregate), node
        return None

    def _nested(self, node: Nested) -> Expression:
        text = self.query(node.query)
        if node.kind != "in":
            return _written(f"EXISTS ({text})" if node.kind == "exists" else f"({text})", node.type)
        if id(node) not in self._tested:
            raise DoesNotFit("IN (SELECT …) as a value is never NULL in Spark")
        assert node.value is not None
        value, (output,), label = self._expression(node.value), node.query.outputs, self._new_label()
        common = comparable(value.type, output.type)
        listed = _tried(cast(ColumnRef(output.label, output.type, label), common))
        inner = f"SELECT {_spelled(listed)} FROM ({text}) AS {quoted(label)}"
        return _written(f"({_spelled(_tried(cast(value, common)))} IN ({inner}))", "boolean")

    def _over(self, node: Over, level: _Level) -> Expression:
        kind = self._types.typed(node).type
        parts = []
        if node.partition:
            listed = ", ".join(_spelled(_as_key(self._expression(each))) for each in node.partition)
            parts.append(f"PARTITION BY {listed}")
        if node.order:
            parts.append(f"ORDER BY {', '.join(self._sorted_by(each) for each in node.order)}")
        over = f" OVER ({' '.join(parts)})"
        if node.name in _RANKS:
            return level.add(f"CAST({node.name}(){over} AS {duckdb_type(kind)})", kind)
        return self._aggregate(Aggregate(node.name, node.arguments, False, node.filter), level, kind, over)

    def _sorted_by(self, key: SortKey) -> str:
        return direction(_spelled(_as_key(self._expression(key.value))), key)

    def _aggregate(self, node: Aggregate, level: _Level, kind: str, over: str = "") -> Expression:
        """An aggregate of columns of a level; sums and averages are made of exact sums, as those of slices."""
        name, arguments, conditions = plain_name(node.name), list(node.arguments), []
        if isinstance(arguments[0], Star):
            arguments = []
        if name == "count_if":
            name, conditions = "count", [self._condition(arguments.pop())]
        if node.filter is not None:
            conditions.append(self._condition(node.filter))
        if name not in (*FACTORS, *_BITS):
            raise DoesNotFit(f"only Spark computes {node.name}")
        values = [self._expression(each) for each in arguments]
        distinct = node.distinct and name not in ("min", "max", *_BITS)
        chosen = f" FILTER (WHERE {' AND '.join(f'({_spelled(each)})' for each in conditions)})" if conditions else ""

        def add(function: str, of: Expression | None, stored: str) -> Expression:
            inner = "*"
            if of is not None:
                inner = f"DISTINCT {_spelled(_as_key(of))}" if distinct else _spelled(of)
            text = f"{function}({inner}){chosen}{over}"
            return level.add(f"CAST({text} AS {duckdb_type(stored)})" if is_decimal(stored) else text, stored)

        if name in _BITS:
            return add(name, values[0], kind)
        if name == "count" and len(values) > 1:
            return add("count", _together(values), kind)
        return _tried(combined(name, values[0] if values else None, kind, add))


def _together(values: Sequence[Expression]) -> Expression:
    """Several values as one, which is NULL if one of them is."""
    places = [f"{{{at}}}" for at in range(len(values))]
    known = " AND ".join(f"{place} IS NOT NULL" for place in places)
    return sql(f"CASE WHEN {known} THEN row({', '.join(places)}) END", "", *(_as_key(each) for each in values))


def _tested(condition: Scalar) -> Iterator[Scalar]:
    """What a condition is made of by AND, OR and NOT, where it does not matter to Spark what is NULL and what FALSE."""
    if isinstance(condition, Parenthesized):
        yield from _tested(condition.inner)
    elif isinstance(condition, Call) and condition.name.lower() in ("and", "or", "not"):
        for each in condition.arguments:
            yield from _tested(each)
    else:
        yield condition


def _with_subqueries(root: Scalar) -> Iterable[Scalar]:
    for node in root.walk():
        yield node
        if isinstance(node, Nested):
            yield from all_nodes(node.query)
