"""Aggregates of one stream that combine, as partial aggregates of slices."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model import ColumnRef, Expression, Output
from watersmeet.model.expression import column_ref
from watersmeet.model.forms import END, START, FinalStage, PartialAggregate, SliceAggregates
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.rendering import sql
from watersmeet.sql.lower.combine import MOMENTS, PartialList, combined, plain_name
from watersmeet.sql.lower.final import FinalBuilder, checked, proven, some_row
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.relational_text import is_constant
from watersmeet.sql.resolve.resolved import Bound, Nested, ResolvedSelect, Scan, WindowEnd
from watersmeet.sql.resolve.typing import only_spark
from watersmeet.sql.spark_types import FLOATS, Unsupported, is_numeric
from watersmeet.sql.tree import Aggregate, Call, Over, Parenthesized, Scalar, Star
from watersmeet.sql.typing import Typing


def slice_aggregates(lowering: Lowering, query: ResolvedSelect) -> SliceAggregates:
    """The query over one stream in slices; raises DoesNotFit."""
    assert isinstance(query.source, Scan)
    rows = Rows(lowering, {query.source.label: ""})
    where = rows.condition(query.where) if query.where is not None else None
    keys, partials, final, outputs = grouped(query, rows, distinct=True)
    return SliceAggregates(query.source.stream, where, keys, partials, final=final, outputs=outputs)


def grouped(
    query: ResolvedSelect, rows: Rows, distinct: bool = False
) -> tuple[tuple[Expression, ...], tuple[PartialAggregate, ...], FinalStage, tuple[Output, ...]]:
    """Keys, partials, the last step and the outputs of a query whose rows are known; `distinct`: also partials of
    distinct values."""
    if not query.aggregated and not query.distinct:
        raise DoesNotFit("it gives rows and not aggregates")
    nodes = query.group if query.aggregated else tuple(dict.fromkeys(query.values))
    nodes = tuple(node for node in nodes or () if not is_constant(node))
    keys = tuple(rows.key(node) for node in nodes)
    partials = PartialList()
    last = FinalBuilder(
        rows.lowering,
        [(node, key.type) for node, key in zip(nodes, keys, strict=True)],
        lambda node: _partial(node, rows, partials, distinct),
    )
    nonempty = None
    if (query.group is not None or not query.aggregated) and not keys:
        nonempty = some_row(*partials.add(PartialAggregate("count", None, None, "bigint")))
    outputs, final = last.read(query, nonempty=nonempty)
    if not query.aggregated:
        final = replace(final, distinct=False)  # the keys are the outputs
    return keys, tuple(partials.listed), final, outputs


class Rows:
    """Expressions over single rows; `names` says what the row of a relation is called in them."""

    def __init__(self, lowering: Lowering, names: dict[str, str]) -> None:
        self.lowering = lowering
        self.types = lowering.resolver.typing
        self._names = names
        self._typing = Typing(lowering.site, self._leaf)

    def _leaf(self, node: Scalar) -> Expression | None:
        if isinstance(node, Bound):
            return self._of_row(column_ref(node.column, node.type, node.relation))
        if isinstance(node, WindowEnd):
            return self._of_row(ColumnRef(END if node.end else START, "timestamp"))
        if isinstance(node, Nested | Over):
            raise DoesNotFit("it has a subquery" if isinstance(node, Nested) else "it has a function with OVER")
        return None

    def value(self, node: Scalar) -> Expression:
        known = self.types.typed(node)
        if only_spark(known):
            return proven(self.lowering.check, node, self._typing)  # which says why not
        return checked(self.lowering.check, node, known.renamed(self._of_row))

    def _of_row(self, column: ColumnRef) -> ColumnRef:
        if column.name in (START, END) and not column.row:
            raise DoesNotFit("a condition or an argument reads the ends of the window")
        if column.row not in self._names:
            raise DoesNotFit("it has a subquery")
        return column_ref(column.name, column.type, self._names[column.row])

    def key(self, node: Scalar) -> Expression:
        """A value that rows are grouped or joined by: -0.0 is 0.0 there, as in Spark."""
        found = self.value(node)
        if found.type not in FLOATS:
            return found
        return sql(f"CASE WHEN {{0}} = 0 THEN CAST(0 AS {found.type.upper()}) ELSE {{0}} END", found.type, found)

    def condition(self, node: Scalar) -> Expression:
        found = self.value(node)
        return found if found.type == "boolean" else cast(found, "boolean")


def argument_of(node: Aggregate) -> tuple[Scalar | None, Scalar | None]:
    """What is aggregated, and which rows count."""
    if node.distinct and node.name not in ("min", "max"):
        raise DoesNotFit(f"{node.name}(DISTINCT …) has no partial aggregates that combine")
    if isinstance(node.arguments[0], Star):
        return None, node.filter
    if node.name == "count_if":
        from_argument = node.arguments[0]
        return None, from_argument if node.filter is None else _both(from_argument, node.filter)
    if len(node.arguments) > 1:
        raise DoesNotFit(f"{node.name} of several arguments has no partial aggregates that combine")
    return node.arguments[0], node.filter


def _both(one: Scalar, other: Scalar) -> Scalar:
    return Call("and", (Parenthesized(one), Parenthesized(other)))


def _partial(node: Aggregate, rows: Rows, partials: PartialList, distinct: bool) -> Expression:
    kind = rows.types.aggregate(node).type
    if distinct and node.distinct and plain_name(node.name) in ("count", "sum", "avg"):
        return _of_distinct(node, kind, rows, partials)
    value, condition = argument_of(node)
    argument = rows.value(value) if value is not None else None
    chosen = rows.condition(condition) if condition is not None else None
    name = "count" if node.name == "count_if" else node.name

    def add(function: str, of: Expression | None, stored: str) -> Expression:
        (column,) = partials.add(PartialAggregate(function, of, chosen, stored))
        return column

    if argument is not None and is_numeric(argument.type) and plain_name(name) in MOMENTS:
        try:
            real = cast(argument, "double")
        except Unsupported:
            raise DoesNotFit(f"{argument.type.upper()} is not converted to DOUBLE here") from None
        n, _, m2 = partials.add(PartialAggregate("moments", real, chosen, "double"))
        return sql(MOMENTS[plain_name(name)], "double", n, m2)
    return combined(name, argument, kind, add)


def _of_distinct(node: Aggregate, kind: str, rows: Rows, partials: PartialList) -> Expression:
    values = tuple(rows.key(each) for each in node.arguments)
    if any("<" in each.type for each in values):
        raise DoesNotFit(f"{node.name}(DISTINCT …) has an argument of a nested type")
    chosen = rows.condition(node.filter) if node.filter is not None else None

    def add(function: str, of: Expression | None, stored: str) -> Expression:
        argument = of if function == "sum" else None
        (column,) = partials.add(PartialAggregate(function, argument, chosen, stored, values))
        return column

    return combined(node.name, values[0], kind, add)
