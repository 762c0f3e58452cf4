"""A continuous query: from the tree of a SELECT to a JoinForm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from watersmeet.model import Alias, Expression, JoinForm, Output, Query, Sink, Stream
from watersmeet.sql import tree
from watersmeet.sql.bind import Binder
from watersmeet.sql.lower.conditions import Condition
from watersmeet.sql.lower.leaf import LeafCondition, Table, find_leaf
from watersmeet.sql.lower.rows import Member, Scalars, conjuncts, without_not
from watersmeet.sql.parse import parse_query
from watersmeet.sql.resolve import resolved
from watersmeet.sql.resolve.resolve import Resolver
from watersmeet.sql.resolve.resolved import Joined, Nested, Scan
from watersmeet.sql.rules import check_continuous
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Call, Node, Truth
from watersmeet.sql.windows import Windows


def build_continuous(
    name: str,
    text: str,
    streams: Mapping[str, Stream],
    sink: Sink,
    site: Site,
    windows: Windows,
    binder: Binder,
    max_aliases: int,
) -> Query:
    parsed, check_all_read = parse_query(site, windows.blanked, windows.tokens)
    select = check_continuous(site, parsed, windows.tokens)
    lengths = lengths_of(site, name, select, windows, max_aliases)
    resolver = Resolver(site, streams, binder, continuous=True)
    query = resolver.whole(select)
    assert isinstance(query, resolved.Select)
    join = Join(site, binder, query, resolver.aliases, lengths)
    outputs = join.outputs(query)
    join.check_connected()
    check_all_read()
    return Query(name, join.form(outputs, query.values), sink=sink, sql=text)


def lengths_of(site: Site, name: str, select: tree.Select, windows: Windows, max_aliases: int) -> list[int | None]:
    """The windows of all tables, whose number is limited and whose aliases are different."""
    tables = list(_tables_of(select))
    if len(tables) > max_aliases:
        site.fail(
            tables[max_aliases].alias.span,
            f"query {name} joins {len(tables)} aliases; the limit is {max_aliases}",
            hint="split it into two queries, or raise the option max_aliases",
        )
    _check_apart(site, tables)
    return _window_lengths(site, tables, windows)


def _tables_of(query: tree.Query) -> Iterator[tree.TableName]:
    """The tables of FROM, then those of subqueries in WHERE, as the resolver meets them."""
    assert isinstance(query, tree.Select)
    waiting: list[tree.Source] = [query.source] if query.source else []
    while waiting:
        source = waiting.pop()
        if isinstance(source, tree.Join):
            waiting += [source.right, source.left]
        elif isinstance(source, tree.TableName):
            yield source
    for node in query.where.walk() if query.where is not None else ():
        if isinstance(node, tree.Exists | tree.InSubquery):
            yield from _tables_of(node.query)


def _check_apart(site: Site, tables: Sequence[tree.TableName]) -> None:
    known: set[str] = set()
    for at, table in enumerate(tables):
        if table.alias.text.lower() in known:
            site.fail(
                table.alias.span,
                f"alias {table.alias.text} is used twice",
                hint=f"name each use of a stream, for example {table.name.text} AS {table.alias.text}{at + 1}",
            )
        known.add(table.alias.text.lower())


def _window_lengths(site: Site, tables: Sequence[tree.TableName], windows: Windows) -> list[int | None]:
    """The window of each table, from the brackets behind its name or alias or from the query-wide clause."""
    free = list(windows.brackets)
    lengths: list[int | None] = []
    for table in tables:
        mine = [bracket for bracket in free if bracket.after in (table.name.span[1], table.alias.span[1])]
        if len(mine) > 1:
            site.fail(mine[1].span, f"alias {table.alias.text} has two windows", hint="remove one of them")
        if not mine and windows.overall is None:
            site.fail(
                table.alias.span,
                f"alias {table.alias.text} has no window",
                hint=f"write {table.name.text} [RANGE 10 SECONDS] or [UNBOUNDED],"
                " or WINDOW 10 SECONDS at the end of the query",
            )
        own = mine[0] if mine else windows.overall
        lengths.append(own.window if own else None)
        free = [bracket for bracket in free if bracket not in mine]
    if free:
        site.fail(free[0].span, "this window belongs to no stream", hint="move it after a stream's name or alias")
    return lengths


class Join:
    """FROM and WHERE of a resolved query."""

    def __init__(
        self,
        site: Site,
        binder: Binder,
        query: resolved.Select,
        aliases: Mapping[str, Name],
        lengths: Sequence[int | None],
    ) -> None:
        self._site, self._binder, self._lengths = site, binder, lengths
        asked = [(each, _nested(each)) for each in conjuncts(query.where)]
        nested = [found for _, found in asked if found is not None]
        assert query.source is not None
        self._tables = [*_of_source(query.source, aliases), *(_of_subquery(*each, aliases) for each in nested)]
        self.members = [table.member for table in self._tables]
        self.scalars = Scalars(site, binder, self.members)
        self._condition = Condition(self.scalars)
        where = [each for each, found in asked if found is None]
        at_leaf = find_leaf(site, self._tables)
        self.leaf = LeafCondition(self.scalars, at_leaf, self._condition) if at_leaf else None
        if self.leaf:
            self.leaf.add(self._tables, where)
        else:
            for condition in (*(each for table in self._tables for each in table.on), *where):
                self._condition.add(condition)
        for at, table in enumerate(self._tables):
            if table.is_cross:
                earlier = [each for each in self.members[:at] if not self.leaf or each is not self.leaf.member]
                self._condition.add_cross(earlier[-1], table.member)
        for _, each in nested:
            assert isinstance(each.query, resolved.Select)
            for value in each.query.values:
                self._value(value)

    def check_connected(self) -> None:
        """Outputs are read before: what is wrong with them is reported first."""
        self._condition.check_connected(self.leaf.preserved if self.leaf else self.members)

    def outputs(self, query: resolved.Select) -> tuple[Output, ...]:
        found = []
        for column, value in zip(query.outputs, query.values, strict=True):
            expression = self._value(value)
            found.append(Output(column.name, expression.type, expression))
        return tuple(found)

    def _value(self, node: Node) -> Expression:
        self.scalars.check_functions(node)
        return self._binder.bound(node, self.scalars.expression(node, lambda member: member.alias))

    def form(self, outputs: tuple[Output, ...], values: Sequence[Node]) -> JoinForm:
        condition, leaf = self._condition, self.leaf
        aliases = [
            Alias(member.alias, member.stream, length, condition.filter_of(member))
            for member, length in zip(self.members, self._lengths, strict=True)
        ]
        if leaf is None:
            return JoinForm(tuple(aliases), condition.equalities(), outputs, condition.predicates())
        leaf.check(self._lengths, values)
        own = replace(aliases.pop(leaf.table.at), filter=leaf.on.filter_of(leaf.member))
        return JoinForm((*aliases, own), leaf.equalities(), outputs, leaf.predicates(), leaf.leaf())


def _of_source(source: resolved.Source, aliases: Mapping[str, Name]) -> list[Table]:
    if isinstance(source, Scan):
        return [Table(_member(source, aliases))]
    assert isinstance(source, Joined) and isinstance(source.right, Scan)
    kind = source.kind if source.kind in ("left", "right", "semi", "anti") else ""
    on = (source.on,) if source.on is not None else ()
    is_cross = source.written.text.upper() == "CROSS JOIN" and not on
    right = Table(_member(source.right, aliases), kind, on, source.written, is_cross)
    return [*_of_source(source.left, aliases), right]


def _of_subquery(is_negated: bool, nested: Nested, aliases: Mapping[str, Name]) -> Table:
    query = nested.query
    assert isinstance(query, resolved.Select) and isinstance(query.source, Scan)
    on = list(conjuncts(query.where))
    if nested.value is not None:
        equal: Node = Call("=", (nested.value, query.values[0]), where=nested.where)
        if is_negated:  # rows that are not known to differ are partners
            equal = Call("coalesce", (equal, Truth(True)), function=True, where=nested.where)
        on.append(equal)
    word = f"{'NOT ' if is_negated else ''}{'EXISTS' if nested.value is None else 'IN'}"
    written = Name(word, nested.span)
    return Table(_member(query.source, aliases), "anti" if is_negated else "semi", tuple(on), written, is_nested=True)


def _nested(node: Node) -> tuple[bool, Nested] | None:
    """[NOT] EXISTS or [NOT] IN as a whole condition."""
    negated, inner = without_not(node)
    return (negated, inner) if isinstance(inner, Nested) and inner.kind in ("exists", "in") else None


def _member(scan: Scan, aliases: Mapping[str, Name]) -> Member:
    return Member(scan.alias, scan.label, scan.stream, aliases[scan.label].span)
