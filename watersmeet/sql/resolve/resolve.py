"""Resolves a windowed query: every name, every type, and what stands where it may not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn

from watersmeet.model import Stream
from watersmeet.sql import tree
from watersmeet.sql.bind import Binder
from watersmeet.sql.functions.aggregates import is_orderable
from watersmeet.sql.resolve import resolved
from watersmeet.sql.resolve.correlation import check_correlation
from watersmeet.sql.resolve.from_clause import Environment, FromClause, Labels
from watersmeet.sql.resolve.groups import bare, check_grouped
from watersmeet.sql.resolve.resolved import Bound, Nested, OutColumn
from watersmeet.sql.resolve.scope import WINDOW, Names, Relation, field_of_window
from watersmeet.sql.resolve.typing import SparkTyping, Untyped
from watersmeet.sql.site import Site, name_hint
from watersmeet.sql.spark_types import Unsupported, shown, widest
from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Aggregate, Call, Column, Node, Number, Ordered, Over, without_parentheses

_MOST_QUERIES = 200
Aliases = Mapping[str, Node]  # of the SELECT list, by lower case


class Resolver:
    """Resolves one query. `window_calls` are the calls of window(…) that it met, each with what it reads resolved."""

    def __init__(
        self, site: Site, streams: Mapping[str, Stream], binder: Binder | None = None, *, continuous: bool = False
    ) -> None:
        """`continuous`: a query without windows of its own, whose scalars get their types when it is lowered."""
        self._site = site
        self._registered = binder.registered if binder else lambda name: None
        self._continuous = continuous
        self._typing: SparkTyping | Untyped = Untyped() if continuous else SparkTyping(site)
        self._from = FromClause(site, streams, self._typing, self._inner, self._condition_of_join)
        self._resolved = 0
        self._known: Environment = {}  # of the query whose scalars are read
        self.window_calls: list[tuple[Call, tuple[Node, ...]]] = []

    @property
    def tables(self) -> list[tree.TableName]:
        """All uses of streams."""
        return self._from.tables

    @property
    def aliases(self) -> Mapping[str, Name]:
        """By the label of a scan, its alias as written."""
        return self._from.aliases

    def whole(self, query: tree.Query) -> resolved.Query:
        return self._query(query, None, {}, outermost=True)

    # Queries -------------------------------------------------------------------------------------

    def _inner(self, query: tree.Query, parent: Names | None, known: Environment) -> resolved.Query:
        return self._query(query, parent, known)

    def _query(
        self, query: tree.Query, parent: Names | None, known: Environment, outermost: bool = False
    ) -> resolved.Query:
        self._resolved += 1
        if self._resolved > _MOST_QUERIES:
            self._site.fail(
                query.span, f"the query uses more than {_MOST_QUERIES} subqueries", hint="use names of WITH less often"
            )
        for common in query.common:
            known = {**known, common.name.text.lower(): (common, known)}
        if isinstance(query, tree.Select):
            return self._select(query, parent, known, outermost)
        return self._set_operation(query, parent, known, outermost)

    def _set_operation(
        self, query: tree.SetOperation, parent: Names | None, known: Environment, outermost: bool
    ) -> resolved.Query:
        left = self._query(query.left, parent, known, outermost)
        right = self._query(query.right, parent, known)
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
        names = Names.of(self._site, Relation("", "", tuple(outputs)))
        values: list[Node] = [Bound("", output.label, output.type) for output in outputs]
        order = self._order(query.ending, names, {}, values)
        self._check_limit(query.ending, outputs, query.span)
        ending = query.ending
        return resolved.SetOperation(tuple(outputs), query.operator, left, right, order, ending.limit, ending.offset)

    def _select(self, query: tree.Select, parent: Names | None, known: Environment, outermost: bool) -> resolved.Select:
        source, names = None, Names(self._site, [], parent)
        if query.source is not None:
            source, names = self._from.read(query.source, parent, known)
        elif outermost:
            self._site.fail(query.span, "this SELECT has no FROM", hint="name the streams to read after FROM")
        self._known = known
        where = self._condition(query.where, names, {}, "WHERE") if query.where is not None else None
        outputs, values, aliases = self._items(query, names, outermost)
        group = self._group(query, names, aliases, values)
        having = self._condition(query.having, names, aliases) if query.having is not None else None
        order = self._order(query.ending, names, aliases, values)
        below = [node for value in (*values, *(each.value for each in order)) for node in value.walk()]
        aggregated = group is not None or having is not None or any(isinstance(node, Aggregate) for node in below)
        if aggregated:
            roots = [*values, *([having] if having is not None else []), *(each.value for each in order)]
            check_grouped(self._site, roots, group or (), {each.label for each in names.relations})
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
        found = resolved.Select(
            *(tuple(outputs), tuple(values), source, where, group, having),
            *(aggregated, query.distinct, order, ending.limit, ending.offset),
        )
        check_correlation(self._site, found, names)
        return found

    def _items(
        self, query: tree.Select, names: Names, outermost: bool
    ) -> tuple[list[OutColumn], list[Node], dict[str, Node]]:
        drafts: list[tuple[str, Node, tree.Item, str]] = []  # name, value, where from, and of which alias a star
        aliases: dict[str, Node] = {}
        for item in query.items:
            if isinstance(item.value, tree.Star):
                for each in names.starred(item.value.qualifier):
                    alias = each.relation.alias if each.relation and not each.merged else ""
                    drafts.append((each.column.name, each.value, item, alias))
                continue
            value = self._scalar(item.value, names, aliases)
            plain = without_parentheses(item.value)
            written = plain.parts[-1] if isinstance(plain, Column) else ""
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
            outputs.append(OutColumn(name, labels.new(name or "value"), self._typing.value(value).type))
        return outputs, [value for _, value, *_ in drafts], aliases

    def _group(self, query: tree.Select, names: Names, aliases: Aliases, values: list[Node]) -> tuple[Node, ...] | None:
        if query.group is None and not query.group_all:
            return None
        keys: list[Node] = []
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

    def _order(self, ending: tree.Ending, names: Names, aliases: Aliases, values: list[Node]) -> tuple[Ordered, ...]:
        found = []
        for each in ending.order:
            inner = without_parentheses(each.value)
            if isinstance(inner, Number) and inner.text.isdigit():
                value = self._at(inner, values, "ORDER BY")
            else:
                column = inner.parts[0].lower() if isinstance(inner, Column) else ""
                simple = isinstance(inner, Column) and len(inner.parts) == 1 and column in aliases
                value = aliases[column] if simple else self._scalar(each.value, names, aliases)
            kind = self._typing.value(value).type
            if not is_orderable(kind):
                self._site.fail(
                    each.value.span, f"ORDER BY {shown(kind)} is not supported", hint="order by simple values"
                )
            found.append(replace(each, value=value))
        return tuple(found)

    def _at(self, number: Number, values: list[Node], clause: str) -> Node:
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

    def _condition_of_join(self, node: Node, names: Names) -> Node:
        return self._condition(node, names, {}, "ON")

    def _condition(self, node: Node, names: Names, aliases: Aliases, clause: str = "") -> Node:
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

    def _scalar(self, node: Node, names: Names, aliases: Aliases) -> Node:
        known = self._known

        def read(inner: Node) -> Node:
            match inner:
                case Column():
                    return self._column(inner, names, aliases)
                case tree.Field() if _is_window(inner.value):
                    self._window_call(inner.value, names)
                    return field_of_window(inner, inner.name) or self._no_value(inner)
                case tree.SubqueryValue():
                    return self._value_of(inner, self._subquery(inner.query, names, known))
                case tree.Exists():
                    query = self._subquery(inner.query, names, known)
                    return Nested("exists", query, where=partial(getattr, inner.query, "span"))
                case tree.InSubquery():
                    query = self._subquery(inner.query, names, known)
                    if len(query.outputs) != 1:
                        self._one_column(inner, query)
                    return Nested("in", query, read(inner.value), where=inner.where)
            if not self._continuous:
                self._check_windowed(inner)
            return inner.rebuilt(read)

        return read(node)

    def _check_windowed(self, node: Node) -> None:
        """What is no value in a windowed query."""
        if _is_window(node):
            self._no_value(node)
        if isinstance(node, Call) and node.name.lower() == "result_time":
            self._site.fail(
                node.span,
                "result_time() belongs into window(…)",
                hint="group by window(result_time(), '1 minute')",
            )
        if isinstance(node, Call) and node.function and self._registered(node.name):
            self._site.fail(
                node.span,
                f"the registered predicate {node.name} cannot be called in a windowed query",
                hint="join with it in a continuous query",
            )
        self._check_below(node)

    def _check_below(self, node: Node) -> None:
        """Reject aggregates and OVER where no row could have them."""
        below = list(node.walk())[1:] if isinstance(node, Aggregate | Over) else []
        for each in below:
            if isinstance(each, Over):
                self._no_over(each, "another function")
            if isinstance(each, Aggregate) and isinstance(node, Aggregate):
                self._site.fail(node.span, "an aggregate inside of an aggregate", hint="aggregate a subquery")

    def _subquery(self, query: tree.Query, names: Names, known: Environment) -> resolved.Query:
        found = self._query(query, names, known)
        self._known = known
        return found

    def _value_of(self, node: tree.SubqueryValue, query: resolved.Query) -> Node:
        if len(query.outputs) != 1:
            self._one_column(node, query)
        single = isinstance(query, resolved.Select) and query.aggregated and query.group is None
        if not single and query.limit not in (0, 1):
            self._site.fail(
                node.span,
                "this subquery may give more than one row",
                hint="select an aggregate such as max(…) without GROUP BY, or add LIMIT 1",
            )
        return Nested("value", query, type=query.outputs[0].type, where=node.where)

    def _one_column(self, node: Node, query: resolved.Query) -> NoReturn:
        self._site.fail(node.span, f"this subquery gives {len(query.outputs)} columns", hint="select one")

    def _column(self, written: Column, names: Names, aliases: Aliases) -> Node:
        found = names.find(written)
        if found is None and len(written.parts) == 1 and written.parts[0].lower() in aliases:
            return aliases[written.parts[0].lower()]
        return found or names.column(written, windowed=not self._continuous)

    def _window_call(self, call: Node, names: Names) -> None:
        assert isinstance(call, Call)
        arguments = tuple(names.column(each) if isinstance(each, Column) else each for each in call.arguments)
        self.window_calls.append((call, arguments))

    def _no_over(self, node: Over, clause: str) -> NoReturn:
        self._site.fail(node.span, f"OVER inside of {clause}", hint="select it in a subquery, and read its column")

    def _no_value(self, node: Node) -> NoReturn:
        self._site.fail(node.span, "the window is no value of its own", hint="use window_start and window_end")


def _is_window(node: Node) -> bool:
    return isinstance(node, Call) and node.function and node.name.lower() == WINDOW
