"""Class one: aggregates of one stream that combine."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model import ColumnRef, Expression, Output
from watersmeet.model.expression import column_ref
from watersmeet.model.forms import Final, Partial, SliceAggregates
from watersmeet.sql.bind import Binder
from watersmeet.sql.functions.casts import cast
from watersmeet.sql.functions.rendering import sql
from watersmeet.sql.lower.combine import NotThisClass, Partials, combined, moments, plain_name
from watersmeet.sql.lower.final import LastStep, proven, some_row
from watersmeet.sql.lower.spark_text import is_constant
from watersmeet.sql.resolve.resolved import Bound, Nested, Scan, Select, WindowEnd
from watersmeet.sql.resolve.typing import SparkTyping
from watersmeet.sql.site import Site
from watersmeet.sql.spark_types import FLOATS, Unsupported, is_numeric
from watersmeet.sql.tree import Aggregate, Call, Node, Over, Parenthesized, Star
from watersmeet.sql.typing import Typing


def as_slices(site: Site, binder: Binder, query: Select) -> SliceAggregates:
    """The query in slices; raises NotThisClass."""
    if not isinstance(query.source, Scan):
        raise NotThisClass("it reads more than one stream")
    rows = Rows(site, binder, {query.source.label: ""})
    where = rows.condition(query.where) if query.where is not None else None
    keys, partials, final, outputs = grouped(site, binder, query, rows, distinct=True)
    return SliceAggregates(query.source.stream, where, keys, partials, final, outputs)


def grouped(
    site: Site, binder: Binder, query: Select, rows: Rows, distinct: bool = False
) -> tuple[tuple[Expression, ...], tuple[Partial, ...], Final, tuple[Output, ...]]:
    """Keys, partials, the last step and the outputs of a query whose rows are known; `distinct`: also partials of
    distinct values."""
    if not query.aggregated and not query.distinct:
        raise NotThisClass("it gives rows and not aggregates")
    nodes = query.group if query.aggregated else tuple(dict.fromkeys(query.values))
    nodes = tuple(node for node in nodes or () if not is_constant(node))
    keys = tuple(rows.key(node) for node in nodes)
    partials = Partials()
    last = LastStep(
        site,
        binder,
        [(node, key.type) for node, key in zip(nodes, keys, strict=True)],
        lambda node: _partial(node, rows, partials, distinct),
    )
    nonempty = None
    if (query.group is not None or not query.aggregated) and not keys:
        nonempty = some_row(*partials.add(Partial("count", None, None, "bigint")))
    outputs, final = last.read(query, nonempty=nonempty)
    if not query.aggregated:
        final = replace(final, distinct=False)  # the keys are the outputs
    return keys, tuple(partials.listed), final, outputs


class Rows:
    """Expressions over single rows; `names` says what the row of a relation is called in them."""

    def __init__(self, site: Site, binder: Binder, names: dict[str, str]) -> None:
        self._site = site
        self._binder = binder
        self._names = names
        self._typing = Typing(site, self._leaf)
        self.types = SparkTyping(site)

    def named(self, names: dict[str, str]) -> Rows:
        return Rows(self._site, self._binder, names)

    def _leaf(self, node: Node) -> Expression | None:
        if isinstance(node, Bound):
            return self.column(node)
        if isinstance(node, WindowEnd):
            raise NotThisClass("a condition or an argument reads the ends of the window")
        if isinstance(node, Nested | Over):
            raise NotThisClass("it has a subquery" if isinstance(node, Nested) else "it has a function with OVER")
        return None

    def column(self, node: Bound) -> ColumnRef:
        if node.relation not in self._names:
            raise NotThisClass("it has a subquery")
        return column_ref(node.column, node.type, self._names[node.relation])

    def value(self, node: Node) -> Expression:
        return proven(self._binder, node, self._typing)

    def key(self, node: Node) -> Expression:
        """A value that rows are grouped or joined by: -0.0 is 0.0 there, as in Spark."""
        found = self.value(node)
        if found.type not in FLOATS:
            return found
        return sql(f"CASE WHEN {{0}} = 0 THEN CAST(0 AS {found.type.upper()}) ELSE {{0}} END", found.type, found)

    def condition(self, node: Node) -> Expression:
        found = self.value(node)
        return found if found.type == "boolean" else cast(found, "boolean")


def argument_of(node: Aggregate, rows: Rows) -> tuple[Node | None, Node | None]:
    """What is aggregated, and which rows count."""
    if node.distinct and node.name not in ("min", "max"):
        raise NotThisClass(f"{node.name}(DISTINCT …) has no partial aggregates that combine")
    if isinstance(node.arguments[0], Star):
        return None, node.filter
    if node.name == "count_if":
        from_argument = node.arguments[0]
        return None, from_argument if node.filter is None else _both(from_argument, node.filter)
    if len(node.arguments) > 1:
        raise NotThisClass(f"{node.name} of several arguments has no partial aggregates that combine")
    return node.arguments[0], node.filter


def _both(one: Node, other: Node) -> Node:
    return Call("and", (Parenthesized(one), Parenthesized(other)))


def _partial(node: Aggregate, rows: Rows, partials: Partials, distinct: bool) -> Expression:
    kind = rows.types.aggregate(node).type
    if distinct and node.distinct and plain_name(node.name) in ("count", "sum", "avg"):
        return _of_distinct(node, kind, rows, partials)
    value, condition = argument_of(node, rows)
    argument = rows.value(value) if value is not None else None
    chosen = rows.condition(condition) if condition is not None else None
    name = "count" if node.name == "count_if" else node.name

    def add(function: str, of: Expression | None, stored: str) -> Expression:
        (column,) = partials.add(Partial(function, of, chosen, stored))
        return column

    if argument is not None and is_numeric(argument.type) and moments(name, *_ANY):
        try:
            real = cast(argument, "double")
        except Unsupported:
            raise NotThisClass(f"{argument.type.upper()} is not converted to DOUBLE here") from None
        n, _, m2 = partials.add(Partial("moments", real, chosen, "double"))
        found = moments(name, n, m2)
        assert found is not None
        return found
    return combined(name, argument, kind, add)


def _of_distinct(node: Aggregate, kind: str, rows: Rows, partials: Partials) -> Expression:
    values = tuple(rows.key(each) for each in node.arguments)
    if any("<" in each.type for each in values):
        raise NotThisClass(f"{node.name}(DISTINCT …) has an argument of a nested type")
    chosen = rows.condition(node.filter) if node.filter is not None else None

    def add(function: str, of: Expression | None, stored: str) -> Expression:
        argument = of if function == "sum" else None
        (column,) = partials.add(Partial(function, argument, chosen, stored, values))
        return column

    return combined(node.name, values[0], kind, add)


_ANY = (ColumnRef("n", "double"), ColumnRef("m2", "double"))
