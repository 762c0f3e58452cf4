"""Resolves a query: every name, the types of a windowed query, and what stands where it may not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import NoReturn

from watersmeet.model import Stream
from watersmeet.sql import tree
from watersmeet.sql.functions.aggregates import is_orderable
from watersmeet.sql.limits import check_parts
from watersmeet.sql.resolve.correlation import check_correlation
from watersmeet.sql.resolve.from_clause import Environment, FromClause, Labels
from watersmeet.sql.resolve.resolved import (
    Bound,
    Nested,
    OutColumn,
    ResolvedQuery,
    ResolvedSelect,
    ResolvedSetOperation,
    WindowEnd,
    all_nodes,
)
from watersmeet.sql.resolve.scope import Scope, ScopedTable
from watersmeet.sql.resolve.typing import SparkTyping, Untyped
from watersmeet.sql.rules import Kind
from watersmeet.sql.site import Site, name_hint
from watersmeet.sql.spark_types import Unsupported, shown, widest
from watersmeet.sql.syntax import WINDOW, WINDOW_FIELDS
from watersmeet.sql.tree import (
    Aggregate,
    Call,
    ColumnName,
    Number,
    Over,
    Scalar,
    SortKey,
    as_operand,
    bare,
    without_parentheses,
)

_MOST_QUERIES = 200
Aliases = Mapping[str, Scalar]  # of the SELECT list, by lower case


class _Role(Enum):
    """Where a query stands: an outermost one has the names of the results, columns of one in FROM have types."""

    OUTERMOST = "outermost"
    IN_FROM = "in FROM"
    NESTED = "in an expression"


class Resolver:
    """Resolves one query. `window_calls` are the calls of window(…) that it met, each with what it reads resolved."""

    def __init__(self, site: Site, streams: Mapping[str, Stream], kind: Kind) -> None:
        """Scalars of a continuous query get their types when it is lowered, over the rows that it joins."""
        self._site = site
        self._continuous = kind is Kind.CONTINUOUS
        self.typing = SparkTyping(site)
        self._typing: SparkTyping | Untyped = Untyped() if self._continuous else self.typing
        inner, on = partial(self._query, role=_Role.IN_FROM), partial(self._condition, aliases={}, clause="ON")
        self._from = FromClause(site, streams, self._typing, inner, on)
        self.tables: Mapping[str, tree.TableName] = self._from.tables  # all uses of streams, by labels of their scans
        self._resolved = 0
        self._known: Environment = {}  # of the query whose scalars are read
        self.window_calls: list[tuple[Call, tuple[Scalar, ...]]] = []

    def whole(self, query: tree.Query) -> ResolvedQuery:
        return self._query(query, None, {}, _Role.OUTERMOST)

    # Queries -------------------------------------------------------------------------------------

    def _query(self, query: tree.Query, parent: Scope | None, known: Environment, role: _Role) -> ResolvedQuery:
        self._resolved += 1
        if self._resolved > _MOST_QUERIES:
            self._site.fail(
                query.span, f"the query uses more than {_MOST_QUERIES} subqueries", hint="use names of WITH less often"
            )
        for common in query.common:
            known = {**known, common.name.text.lower(): (common, known)}
        if isinstance(query, tree.Select):
            return self._select(query, parent, known, role)
        return self._set_operation(query, parent, known, role)

    def _set_operation(
        self, query: tree.SetOperation, parent: Scope | None, known: Environment, role: _Role
    ) -> ResolvedQuery:
        left = self._query(query.left, parent, known, role)
        right = self._query(query.right, parent, known, _Role.NESTED)
        if len(left.outputs) != len(right.outputs):
            self._site.fail(
                query.span,
                f"{query.operator} of {len(left.outputs)} and {len(right.outputs)} columns",
                hint="select as many columns on both sides",
            )
        outputs = []
        for one, other in zip(left.outputs, right.outputs, strict=True):
            try:
                outputs.append(replace(one, type=widest([one.type, other.type])))
            except Unsupported as error:
                self._site.fail(query.span, f"column {one.name}: {error.problem}", hint=error.hint)
        if query.operator != "UNION ALL":
            self._check_comparable(outputs, query.operator, query.span)
        names = Scope.of(self._site, ScopedTable("", "", tuple(outputs)))
        values: list[Scalar] = [Bound("", output.label, output.type) for output in outputs]
        order = self._order(query.ending, names, {}, values)
        self._check_limit(query.ending, outputs, query.span)
        limit, offset = query.ending.limit, query.ending.offset
        return ResolvedSetOperation(tuple(outputs), query.operator, left, right, order, limit=limit, offset=offset)

    def _select(self, query: tree.Select, parent: Scope | None, known: Environment, role: _Role) -> ResolvedSelect:
        source, names = None, Scope(self._site, [], parent)
        if query.source is not None:
            source, names = self._from.read(query.source, parent, known)
        self._known = known
        where = self._condition(query.where, names, {}, "WHERE") if query.where is not None else None
        outputs, values, aliases = self._items(query, names, role)
        group = self._group(query, names, aliases, values)
        having = self._condition(query.having, names, aliases) if query.having is not None else None
        order = self._order(query.ending, names, aliases, values)
        below = [node for value in (*values, *(each.value for each in order)) for node in value.walk()]
        aggregated = group is not None or having is not None or any(isinstance(node, Aggregate) for node in below)
        if aggregated:
            roots = [*values, *([having] if having is not None else []), *(each.value for each in order)]
            _check_grouped(self._site, roots, group or (), {each.label for each in names.relations})
        if query.distinct and not self._continuous:
            self._check_comparable(outputs, "DISTINCT", query.span)
            known_values = [bare(value) for value in values]
            for each in order:
                if bare(each.value) not in known_values:
                    self._site.fail(
                        each.value.span, "with DISTINCT, ORDER BY takes outputs only", hint="select it, too"
                    )
        self._check_limit(query.ending, outputs, query.span)
        ending = query.ending
        found = ResolvedSelect(
            *(tuple(outputs), tuple(values), source, where, group, having),
            *(aggregated, query.distinct, order, ending.limit, ending.offset),
        )
        check_correlation(self._site, found, names)
        return found

    def _items(
        self, query: tree.Select, names: Scope, role: _Role
    ) -> tuple[list[OutColumn], list[Scalar], dict[str, Scalar]]:
        typing = self.typing if role is _Role.IN_FROM else self._typing
        outermost = role is _Role.OUTERMOST
        drafts: list[tuple[str, Scalar, tree.Item, str]] = []  # name, value, where from, and of which alias a star
        aliases: dict[str, Scalar] = {}
        for item in query.items:
            if isinstance(item.value, tree.Star):
                for each in names.starred(item.value.qualifier):
                    if not each.column.name and outermost and self._continuous:
                        self._site.fail(
                            item.span, "a computed output needs a name", hint="name it with AS in the subquery"
                        )
                    alias = each.relation.alias if each.relation and not each.merged else ""
                    drafts.append((each.column.name, each.value, item, alias))
                continue
            value = self._scalar(item.value, names, aliases)
            plain = without_parentheses(item.value)
            written = plain.parts[-1] if isinstance(plain, ColumnName) else ""
            name = item.name.text if item.name else written
            if not name and outermost:
                self._site.fail(item.span, "a computed output needs a name", hint=name_hint(self._site, item.span))
            if item.name:
                aliases.setdefault(name.lower(), value)
            drafts.append((name, value, item, ""))
        if not drafts:
            self._site.fail(query.span, "this SELECT gives no column", hint="name the columns to select")
        folded = [name.lower() for name, *_ in drafts]
        labels = Labels()
        outputs: list[OutColumn] = []
        for name, value, item, alias in drafts:
            if alias and outermost and folded.count(name.lower()) > 1:
                name = f"{alias}_{name}"  # noqa: PLW2901
            if outermost and any(name.lower() == before.name.lower() for before in outputs):
                self._site.fail(
                    item.name.span if item.name else item.span,
                    f"two outputs are named {name}",
                    detail="Names of outputs ignore case.",
                    hint="give one of them another name with AS",
                )
            outputs.append(OutColumn(name, labels.new(name or "value"), typing.value(value).type))
        return outputs, [value for _, value, *_ in drafts], aliases

    def _group(
        self, query: tree.Select, names: Scope, aliases: Aliases, values: list[Scalar]
    ) -> tuple[Scalar, ...] | None:
        if query.group is None and not query.group_all:
            return None
        keys: list[Scalar] = []
        if query.group_all:
            keys = [value for value in values if not any(isinstance(node, Aggregate) for node in value.walk())]
        for node in query.group or ():
            inner = without_parentheses(node)
            if isinstance(inner, Number) and inner.text.isdigit():
                key = self._at(inner, values, "GROUP BY")
            elif _is_window(inner):
                self._window_call(inner, names)
                continue
            else:
                key = self._scalar(node, names, aliases)
            for below in key.walk():
                if isinstance(below, Over):
                    self._no_over(below, "GROUP BY")
                if isinstance(below, Aggregate | Nested):
                    what = "an aggregate" if isinstance(below, Aggregate) else "a subquery"
                    self._site.fail(node.span, f"GROUP BY has {what}", hint="group by columns and what they give")
            kind = self._typing.value(key).type
            if not is_orderable(kind):
                self._site.fail(node.span, f"GROUP BY {shown(kind)} is not supported", hint="group by simple values")
            keys.append(key)
        return tuple(dict.fromkeys(keys))

    def _order(self, ending: tree.Ending, names: Scope, aliases: Aliases, values: list[Scalar]) -> tuple[SortKey, ...]:
        found = []
        for each in ending.order:
            inner = without_parentheses(each.value)
            if isinstance(inner, Number) and inner.text.isdigit():
                value = self._at(inner, values, "ORDER BY")
            else:
                column = inner.parts[0].lower() if isinstance(inner, ColumnName) else ""
                simple = isinstance(inner, ColumnName) and len(inner.parts) == 1 and column in aliases
                value = aliases[column] if simple else self._scalar(each.value, names, aliases)
            kind = self._typing.value(value).type
            if not is_orderable(kind):
                self._site.fail(
                    each.value.span, f"ORDER BY {shown(kind)} is not supported", hint="order by simple values"
                )
            found.append(replace(each, value=value))
        return tuple(found)

    def _at(self, number: Number, values: list[Scalar], clause: str) -> Scalar:
        place = int(number.text)
        if not 1 <= place <= len(values):
            self._site.fail(
                number.span, f"{clause} {place}: there are {len(values)} outputs", hint="count the outputs from 1"
            )
        return values[place - 1]

    def _check_limit(self, ending: tree.Ending, outputs: list[OutColumn], span: tuple[int, int]) -> None:
        if ending.limit is not None or ending.offset:
            self._check_comparable(outputs, "LIMIT", span)

    def _check_comparable(self, outputs: list[OutColumn], clause: str, span: tuple[int, int]) -> None:
        for output in outputs:
            if not is_orderable(output.type):
                self._site.fail(
                    span,
                    f"{clause} with an output of type {shown(output.type)} is not supported: {output.name}",
                    hint="select simple values inside of it",
                )

    # Scalars -------------------------------------------------------------------------------------

    def _condition(self, node: Scalar, names: Scope, aliases: Aliases, clause: str = "") -> Scalar:
        found = self._scalar(node, names, aliases)
        for below in found.walk():
            if isinstance(below, Over):
                self._no_over(below, clause or "HAVING")
        for below in found.walk() if clause else ():
            if isinstance(below, Aggregate):
                self._site.fail(below.span, f"{clause} has an aggregate", hint="use HAVING, or a subquery")
            if clause == "ON" and isinstance(below, Nested):
                self._site.fail(below.span, "ON has a subquery", hint="move it to WHERE")
        self._typing.condition(found)
        return found

    def _scalar(self, node: Scalar, names: Scope, aliases: Aliases) -> Scalar:
        known = self._known

        def read(inner: Scalar, of: Scalar | None = None) -> Scalar:
            match inner:
                case ColumnName():
                    return as_operand(of, self._column(inner, names, aliases))
                case tree.Field() if _is_window(inner.value):
                    self._window_call(inner.value, names)
                    return WindowEnd(WINDOW_FIELDS[inner.name.lower()], where=inner.where)
                case tree.SubqueryValue():
                    return self._value_of(inner, self._subquery(inner.query, names, known))
                case tree.Exists():
                    query = self._subquery(inner.query, names, known)
                    return Nested("exists", query, where=partial(getattr, inner.query, "span"))
                case tree.InSubquery():
                    query = self._subquery(inner.query, names, known)
                    self._check_one_column(inner, query)
                    return Nested("in", query, read(inner.value), where=inner.where)
            return inner.rebuilt(partial(read, of=inner))

        found = read(node)
        if aliases:
            check_parts(self._site, found)
        return found

    def _subquery(self, query: tree.Query, names: Scope, known: Environment) -> ResolvedQuery:
        found = self._query(query, names, known, _Role.NESTED)
        self._known = known
        return found

    def _value_of(self, node: tree.SubqueryValue, query: ResolvedQuery) -> Scalar:
        self._check_one_column(node, query)
        single = isinstance(query, ResolvedSelect) and query.aggregated and query.group is None
        if not single and query.limit not in (0, 1):
            self._site.fail(
                node.span,
                "this subquery may give more than one row",
                hint="select an aggregate such as max(…) without GROUP BY, or add LIMIT 1",
            )
        return Nested("value", query, type=query.outputs[0].type, where=node.where)

    def _check_one_column(self, node: Scalar, query: ResolvedQuery) -> None:
        if len(query.outputs) != 1:
            self._site.fail(node.span, f"this subquery gives {len(query.outputs)} columns", hint="select one")

    def _column(self, written: ColumnName, names: Scope, aliases: Aliases) -> Scalar:
        found = names.find(written)
        if found is None and len(written.parts) == 1 and written.parts[0].lower() in aliases:
            return aliases[written.parts[0].lower()]
        return found or names.column(written, windowed=not self._continuous)

    def _window_call(self, call: Scalar, names: Scope) -> None:
        assert isinstance(call, Call)
        arguments = tuple(names.column(each) if isinstance(each, ColumnName) else each for each in call.arguments)
        self.window_calls.append((call, arguments))

    def _no_over(self, node: Over, clause: str) -> NoReturn:
        self._site.fail(node.span, f"OVER inside of {clause}", hint="select it in a subquery, and read its column")


def _is_window(node: Scalar) -> bool:
    return isinstance(node, Call) and node.function and node.name == WINDOW


def _check_grouped(site: Site, roots: Sequence[Scalar], keys: Sequence[Scalar], relations: Collection[str]) -> None:
    """Reject columns of these relations that are neither in a key nor in an aggregate."""
    known = {bare(key) for key in keys}

    def check(node: Scalar) -> None:
        if isinstance(node, Aggregate) or bare(node) in known:
            return
        if isinstance(node, Bound) and node.relation in relations:
            site.fail(
                node.span,
                f"{node.column} is neither in GROUP BY nor in an aggregate",
                hint=f"add it to GROUP BY, or use an aggregate such as max({node.column})",
            )
        if isinstance(node, Nested):
            for inner in all_nodes(node.query):
                if isinstance(inner, Bound) and inner.relation in relations and bare(inner) not in known:
                    check(inner)
        for child in node.children():
            check(child)

    for root in roots:
        check(root)
