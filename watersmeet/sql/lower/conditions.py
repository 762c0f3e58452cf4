"""The condition of a join: a conjunction, split into filters of one alias, equalities and other predicates of two."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model import Equality, Expression, KeyPart, Predicate
from watersmeet.model.expression import all_of
from watersmeet.sql.functions.logic import compared_in
from watersmeet.sql.lower.predicates import call_predicate, cross_product, make_predicate
from watersmeet.sql.lower.rows import JoinAlias, JoinScalars, comparisons, is_true, sides
from watersmeet.sql.site import Span
from watersmeet.sql.spark_types import INTEGERS, Unsupported
from watersmeet.sql.tree import Call, Scalar, conjuncts

_PAIR = 2  # rows are joined two at a time


class Condition:
    """The condition of one join; conjuncts are added to it one by one."""

    def __init__(self, scalars: JoinScalars) -> None:
        self._scalars = scalars
        self._site, self._check = scalars.site, scalars.check
        self._position = {member.alias: at for at, member in enumerate(scalars.members)}
        self._filters: dict[str, dict[Expression, None]] = {}  # by alias, in the order of the text
        self._equalities: set[Equality] = set()
        self._predicates: set[Predicate] = set()

    def add(self, node: Scalar | None) -> None:
        for conjunct in conjuncts(node):
            self._add(conjunct)

    def _add(self, conjunct: Scalar) -> None:
        members = self._scalars.read(conjunct)
        function = self._check.registered(conjunct.name) if isinstance(conjunct, Call) and conjunct.function else None
        if isinstance(conjunct, Call) and function:
            if len(members) != _PAIR:
                self._site.fail(
                    conjunct.span,
                    f"{conjunct.name} reads {len(members)} alias{'' if len(members) == 1 else 'es'} here",
                    hint="pass columns of two aliases: a registered predicate joins two",
                )
            self._predicates.add(call_predicate(self._scalars, members, function, conjunct.arguments))
            return
        self._scalars.check_functions(conjunct)
        if len(members) <= 1:
            if not is_true(conjunct):
                self.add_filter(conjunct, members[0] if members else self._scalars.members[0])
            return
        both = sides(conjunct)
        read = [self._scalars.read(side) for side in both or ()]
        if both and all(len(each) == 1 for each in read):
            keys = [(each[0], self._check.bound(side, self._bare(side))) for side, each in zip(both, read, strict=True)]
            self.add_equality(conjunct.span, keys[0], keys[1])
        elif len(members) == _PAIR:
            self._predicates |= {make_predicate(self._scalars, members, part) for part in comparisons(conjunct)}
        else:
            self._site.fail(
                conjunct.span,
                f"this condition reads {len(members)} aliases: {', '.join(member.alias for member in members)}",
                detail="Rows are joined two at a time: each condition between ANDs may read one or two aliases.",
                hint="split it into conditions over two aliases",
            )

    def add_between(self, node: Scalar, left: JoinAlias, right: JoinAlias) -> None:
        """A condition on a pair of rows, of which it may read only one."""
        self._scalars.check_functions(node)
        self._predicates.add(make_predicate(self._scalars, [left, right], node))

    def joins(self, member: JoinAlias) -> bool:
        """Whether something joins a member to others."""
        return bool(self._reached(member.alias) - {member.alias})

    def add_cross(self, left: JoinAlias, right: JoinAlias) -> None:
        """CROSS JOIN: needed as a predicate only where nothing else joins the two."""
        if right.alias not in self._reached(left.alias):
            self._predicates.add(cross_product(left, right))

    def filter_of(self, member: JoinAlias) -> Expression | None:
        filters = self._filters.get(member.alias)
        if not filters:
            return None
        # The order decides which of them fails, if one can; all others are the same filter in any order.
        return all_of(list(filters) if any(each.fallible for each in filters) else sorted(filters, key=str))

    def equalities(self) -> tuple[Equality, ...]:
        return tuple(
            sorted(
                self._equalities,
                key=lambda e: (
                    *(self._position[alias] for alias in (e.left, e.right)),
                    *(part.expression.text for part in (e.left_key, e.right_key)),
                ),
            )
        )

    def predicates(self) -> tuple[Predicate, ...]:
        return tuple(
            sorted(self._predicates, key=lambda p: (self._position[p.left], self._position[p.right], p.theta.text))
        )

    def _reached(self, start: str) -> set[str]:
        reached, frontier = {start}, [start]
        joins: list[Equality | Predicate] = [*self._equalities, *self._predicates]
        while frontier:
            here = frontier.pop()
            found = {join.other(here) for join in joins if join.touches(here)} - reached
            reached |= found
            frontier.extend(found)
        return reached

    def check_connected(self, members: Sequence[JoinAlias]) -> None:
        """Reject a cross product without CROSS JOIN, at the first alias that no predicate leads to."""
        reached = self._reached(members[0].alias)
        for member in members:
            if member.alias not in reached:
                self._site.fail(
                    member.span,
                    f"nothing joins {member.alias} to {members[0].alias}",
                    hint=f"add a predicate with {member.alias}, or write CROSS JOIN if you want every pair",
                )

    def add_filter(self, node: Scalar, member: JoinAlias) -> None:
        condition = self._check.condition(node, self._bare(node))
        self._filters.setdefault(member.alias, {}).setdefault(condition)

    def add_equality(self, span: Span, left: tuple[JoinAlias, Expression], right: tuple[JoinAlias, Expression]) -> None:
        try:
            pair = compared_in(left[1], right[1])
        except Unsupported as error:
            self._site.fail(span, error.problem, hint=error.hint)
        common = pair[0].type if pair[0].type not in INTEGERS or pair[0].type == pair[1].type else "bigint"
        ends = [(left[0], pair[0]), (right[0], pair[1])]
        ends.sort(key=lambda end: self._position[end[0].alias])
        keys = [KeyPart.of(expression, common) for _, expression in ends]
        self._equalities.add(Equality(ends[0][0].alias, ends[1][0].alias, keys[0], keys[1]))

    def _bare(self, node: Scalar) -> Expression:
        """What a scalar says of the only row that it reads."""
        return self._scalars.expression(node, lambda member: "")
