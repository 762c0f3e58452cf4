"""A continuous join: what FROM and WHERE of a resolved query say, as a JoinForm; and aggregates over its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from watersmeet.errors import SqlError
from watersmeet.model import Alias, ColumnRef, Expression, JoinForm, Output, Stream, member_column
from watersmeet.model.forms import FinalStage, JoinAggregates, PairAggregates, PartialAggregate
from watersmeet.model.types import arrow_type, has_code
from watersmeet.sql.lower.conditions import Condition
from watersmeet.sql.lower.leaf import JoinedTable, LeafCondition, find_leaf
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.rows import JoinAlias, JoinScalars
from watersmeet.sql.lower.slices import Rows, grouped
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


def join_aggregates(lowering: Lowering, query: ResolvedSelect) -> JoinAggregates:
    """The join, with the columns that keys and aggregates read as its outputs, and what is aggregated of them."""
    site = lowering.site
    join = JoinLowering(lowering, query)
    if join.leaf is not None:
        site.fail(
            join.leaf.table.written.span,
            "aggregates over a continuous join have only inner joins",
            hint="use JOIN, or [RANGE … SLIDE …] at each stream",
        )
    join.check_connected()
    try:
        return JoinAggregates(*_aggregated(lowering, query, join))
    except DoesNotFit as problem:
        site.fail(
            (0, len(site.text)),
            f"an aggregate over a continuous join has to combine: {problem}",
            hint="use count, sum, avg, min, max, variance or stddev, or [RANGE … SLIDE …] at each stream",
        )


def pair_aggregates(lowering: Lowering, query: ResolvedSelect) -> PairAggregates:
    """The same for a windowed query whose join can be factorized; raises DoesNotFit."""
    try:
        join = JoinLowering(lowering, query)
        join.check_connected()
    except SqlError as error:
        raise DoesNotFit(f"as a continuous join, {error.problem}") from None
    found = PairAggregates(*_aggregated(lowering, query, join))
    if not found.keys:
        raise DoesNotFit("its windows have results even where no rows join")
    for each in found.partials:
        if each.function in ("min", "max") and not has_code(arrow_type(each.type)):
            raise DoesNotFit(f"{each.function.upper()} of {each.type.upper()} has no value of 64 bits")
    return found


def _aggregated(
    lowering: Lowering, query: ResolvedSelect, join: JoinLowering
) -> tuple[JoinForm, tuple[Expression, ...], tuple[PartialAggregate, ...], FinalStage, tuple[Output, ...]]:
    keys, partials, final, outputs = grouped(query, Rows(lowering, {each.alias: each.alias for each in join.members}))
    columns = dict.fromkeys(column for each in (*keys, *_arguments(partials)) for column in each.columns)
    inner = tuple(Output(member_column(each.row, each.name), each.type, each) for each in columns)
    first = join.members[0]
    inner = inner or (any_column(first.alias, lowering.streams[first.stream]),)
    return join.form(inner, ()), keys, partials, final, outputs


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


def _arguments(partials: tuple[PartialAggregate, ...]) -> Iterator[Expression]:
    for each in partials:
        yield from (read for read in (each.argument, each.filter) if read is not None)


def any_column(alias: str, stream: Stream) -> Output:
    """Results without a column cannot be counted."""
    time = stream.column(stream.time)
    return Output(member_column(alias, time.name), time.type, ColumnRef(time.name, time.type, alias))
