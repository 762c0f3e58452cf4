"""A continuous join: what FROM and WHERE of a resolved query say, as a JoinForm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from watersmeet.model import Alias, Expression, JoinForm, Output
from watersmeet.sql.lower.conditions import Condition
from watersmeet.sql.lower.leaf import JoinedTable, LeafCondition, find_leaf
from watersmeet.sql.lower.lowering import Lowering
from watersmeet.sql.lower.rows import JoinAlias, JoinScalars
from watersmeet.sql.resolve.resolved import Nested, ResolvedJoin, ResolvedSelect, ResolvedSource, Scan
from watersmeet.sql.rules import reject
from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Call, Scalar, Truth, as_operand, conjuncts, without_not


def continuous_join(lowering: Lowering, query: ResolvedSelect) -> JoinForm:
    """The form of a query whose FROM has streams alone."""
    join = JoinLowering(lowering, query)
    outputs = join.outputs(query)
    join.check_connected()
    return join.form(outputs, query.values)


class JoinLowering:
    """FROM and WHERE of a resolved query."""

    def __init__(self, lowering: Lowering, query: ResolvedSelect) -> None:
        self._lowering, self._check = lowering, lowering.check
        self._lengths = _window_lengths(lowering)
        tests = [(each, _test(each)) for each in conjuncts(query.where)]
        nested = [found for _, found in tests if found is not None]
        assert query.source is not None
        self._tables = [*self._of_source(query.source), *(self._of_test(*each) for each in nested)]
        self.members = [table.member for table in self._tables]
        self.scalars = JoinScalars(lowering.site, lowering.check, self.members)
        self._condition = Condition(self.scalars)
        where = [each for each, found in tests if found is None]
        at_leaf = find_leaf(lowering.site, self._tables)
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
            assert isinstance(each.query, ResolvedSelect)
            for value in each.query.values:
                self._value(value)

    def check_connected(self) -> None:
        """Outputs are read before: what is wrong with them is reported first."""
        self._condition.check_connected(self.leaf.preserved if self.leaf else self.members)

    def outputs(self, query: ResolvedSelect) -> tuple[Output, ...]:
        found = []
        for column, value in zip(query.outputs, query.values, strict=True):
            expression = self._value(value)
            found.append(Output(column.name, expression.type, expression))
        return tuple(found)

    def _value(self, node: Scalar) -> Expression:
        self.scalars.check_functions(node)
        return self._check.bound(node, self.scalars.expression(node, lambda member: member.alias))

    def form(self, outputs: tuple[Output, ...], values: Sequence[Scalar]) -> JoinForm:
        condition, leaf = self._condition, self.leaf
        aliases = [
            Alias(member.alias, member.stream, self._lengths[member.alias], condition.filter_of(member))
            for member in self.members
        ]
        if leaf is None:
            return JoinForm(tuple(aliases), condition.equalities(), outputs, condition.predicates())
        leaf.check(self._lengths, values)
        own = replace(aliases.pop(leaf.table.at), filter=leaf.on.filter_of(leaf.member))
        return JoinForm((*aliases, own), leaf.equalities(), outputs, leaf.predicates(), leaf.leaf())

    def _of_source(self, source: ResolvedSource) -> list[JoinedTable]:
        """The tables of FROM from left to right. The first one behind the words of a join has its conditions."""
        if isinstance(source, Scan):
            return [JoinedTable(self._member(source))]
        assert isinstance(source, ResolvedJoin)
        left, (first, *others) = self._of_source(source.left), self._of_source(source.right)
        kind = source.kind if source.kind in ("left", "right", "semi", "anti") else ""
        if kind in ("left", "semi", "anti") and others:
            self._lowering.site.fail(
                others[0].member.span,
                f"{source.written.text} has more than one stream on its right",
                detail="Of a join whose rows may be missing, or are only looked for, that side has to be one stream.",
                hint="join the other streams before it",
            )
        on = (source.on,) if source.on is not None else ()
        is_cross = source.written.text.upper() == "CROSS JOIN" and not on
        right = replace(first, kind=kind, on=on, written=source.written, is_cross=is_cross, before=len(left))
        return [*left, right, *others]

    def _of_test(self, is_negated: bool, nested: Nested) -> JoinedTable:
        """The table of [NOT] EXISTS or [NOT] IN."""
        query = nested.query
        written = Name(f"{'NOT ' if is_negated else ''}{'EXISTS' if nested.value is None else 'IN'}", nested.span)
        assert isinstance(query, ResolvedSelect)
        if not isinstance(query.source, Scan):
            reject(self._lowering.site, "joined subquery", written.text, nested.span)
        on = list(conjuncts(query.where))
        if nested.value is not None:
            equal: Scalar = Call("=", (nested.value, query.values[0]), where=nested.where)
            equal = equal.rebuilt(partial(as_operand, equal))
            if is_negated:  # rows that are not known to differ are partners
                equal = Call("coalesce", (equal, Truth(True)), function=True, where=nested.where)
            on.append(equal)
        kind = "anti" if is_negated else "semi"
        return JoinedTable(self._member(query.source), kind, tuple(on), written, is_nested=True)

    def _member(self, scan: Scan) -> JoinAlias:
        return JoinAlias(scan.label, scan.stream, self._lowering.resolver.tables[scan.label].alias.span)


def _test(node: Scalar) -> tuple[bool, Nested] | None:
    """[NOT] EXISTS or [NOT] IN as a whole condition."""
    negated, inner = without_not(node)
    return (negated, inner) if isinstance(inner, Nested) and inner.kind in ("exists", "in") else None


def _window_lengths(lowering: Lowering) -> Mapping[str, int | None]:
    """The window of each alias, by label; None: UNBOUNDED."""
    site, tables = lowering.site, lowering.resolver.tables
    lengths: dict[str, int | None] = {}
    brackets = lowering.clauses.of_tables(site, tables.values())
    for (label, table), bracket in zip(tables.items(), brackets, strict=True):
        if bracket is None:
            site.fail(
                table.alias.span,
                f"alias {table.alias.text} has no window",
                hint=f"write {table.name.text} [RANGE 10 SECONDS] or [UNBOUNDED],"
                " or WINDOW 10 SECONDS at the end of the query",
            )
        lengths[label] = bracket.window
    return lengths
