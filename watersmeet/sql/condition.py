"""The condition of a query: a conjunction, split into filters of one alias, equalities and other predicates of two."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model import Equality, Expression, KeyPart, Predicate
from watersmeet.model.expression import all_of
from watersmeet.sql.bind import Binder
from watersmeet.sql.functions.logic import compared_in
from watersmeet.sql.scope import Member, Resolved, Scope
from watersmeet.sql.site import Site, Span
from watersmeet.sql.spark_types import INTEGERS, Unsupported
from watersmeet.sql.syntax import Name, Scalar
from watersmeet.sql.theta import Pair, call_predicate, cross_product, make_predicate


class Condition:
    def __init__(self, site: Site, scope: Scope, binder: Binder) -> None:
        self._site = site
        self._scope = scope
        self._binder = binder
        self._filters: dict[str, dict[Expression, None]] = {}  # by alias, in the order of the text
        self._equalities: set[Equality] = set()
        self._predicates: set[Predicate] = set()

    def add(self, scalar: Scalar) -> None:
        for conjunct in scalar.conjuncts():
            members = self._members(conjunct)
            call = conjunct.call()
            function = self._binder.registered(call[0].text) if call else None
            if call and function:
                if len(members) != 2:
                    self._site.fail(
                        conjunct.span,
                        f"{call[0].text} reads {len(members)} alias{'' if len(members) == 1 else 'es'} here",
                        hint="pass columns of two aliases: a registered predicate joins two",
                    )
                pair = Pair(self._site, self._scope, self._binder, members[0], members[1])
                self._predicates.add(call_predicate(pair, function, call[1]))
                continue
            self._binder.check_functions(conjunct)
            if len(members) <= 1:
                if not conjunct.is_true:
                    self.add_filter(conjunct, members[0] if members else self._scope.members[0])
                continue
            sides = conjunct.sides()
            one_each = sides and all(len(self._members(side)) == 1 for side in sides)
            if sides and one_each:
                keys = [(self._members(side)[0], self._binder.bound(side, self._expression(side))) for side in sides]
                self._add_equality(conjunct.span, keys[0], keys[1])
            elif len(members) == 2:
                pair = Pair(self._site, self._scope, self._binder, members[0], members[1])
                self._predicates |= {make_predicate(pair, part) for part in conjunct.comparisons()}
            else:
                self._site.fail(
                    conjunct.span,
                    f"this condition reads {len(members)} aliases: {', '.join(member.alias for member in members)}",
                    detail="Rows are joined two at a time: each condition between ANDs may read one or two aliases.",
                    hint="split it into conditions over two aliases",
                )

    def add_between(self, scalar: Scalar, left: Member, right: Member) -> None:
        """A condition on a pair of rows, of which it may read only one."""
        self._binder.check_functions(scalar)
        self._predicates.add(make_predicate(Pair(self._site, self._scope, self._binder, left, right), scalar))

    def joins(self, member: Member) -> bool:
        """Whether something joins a member to others."""
        return bool(self._reached(member.alias) - {member.alias})

    def add_using(self, name: Name, left: Resolved, right: Resolved) -> None:
        self._add_equality(name.span, (left.member, left.expression()), (right.member, right.expression()))

    def add_cross(self, left: Member, right: Member) -> None:
        """CROSS JOIN: needed as a predicate only where nothing else joins the two."""
        if right.alias not in self._reached(left.alias):
            self._predicates.add(cross_product(left, right))

    def filter_of(self, member: Member) -> Expression | None:
        filters = self._filters.get(member.alias)
        if not filters:
            return None
        # The order decides which of them fails, if one can; all others are the same filter in any order.
        return all_of(list(filters) if any(each.fallible for each in filters) else sorted(filters, key=str))

    def equalities(self) -> tuple[Equality, ...]:
        position = {member.alias: at for at, member in enumerate(self._scope.members)}
        return tuple(
            sorted(
                self._equalities,
                key=lambda e: (
                    *(position[alias] for alias in (e.left, e.right)),
                    *(part.expression.text for part in (e.left_key, e.right_key)),
                ),
            )
        )

    def predicates(self) -> tuple[Predicate, ...]:
        position = {member.alias: at for at, member in enumerate(self._scope.members)}
        return tuple(sorted(self._predicates, key=lambda p: (position[p.left], position[p.right], p.theta.text)))

    def _reached(self, start: str) -> set[str]:
        reached, frontier = {start}, [start]
        joins: list[Equality | Predicate] = [*self._equalities, *self._predicates]
        while frontier:
            here = frontier.pop()
            found = {join.other(here) for join in joins if join.touches(here)} - reached
            reached |= found
            frontier.extend(found)
        return reached

    def check_connected(self, members: Sequence[Member]) -> None:
        """Reject a cross product without CROSS JOIN, at the first alias that no predicate leads to."""
        reached = self._reached(members[0].alias)
        for member in members:
            if member.alias not in reached:
                self._site.fail(
                    member.span,
                    f"nothing joins {member.alias} to {members[0].alias}",
                    hint=f"add a predicate with {member.alias}, or write CROSS JOIN if you want every pair",
                )

    def _members(self, scalar: Scalar) -> list[Member]:
        used = [self._scope.resolve(reference).member for reference in scalar.references()]
        return [member for member in self._scope.members if member in used]

    def add_filter(self, scalar: Scalar, member: Member) -> None:
        condition = self._binder.condition(scalar, self._expression(scalar))
        self._filters.setdefault(member.alias, {}).setdefault(condition)

    def _add_equality(self, span: Span, left: tuple[Member, Expression], right: tuple[Member, Expression]) -> None:
        try:
            pair = compared_in(left[1], right[1])
        except Unsupported as error:
            self._site.fail(span, error.problem, hint=error.hint)
        common = pair[0].type if pair[0].type not in INTEGERS or pair[0].type == pair[1].type else "bigint"
        left, right = (left[0], pair[0]), (right[0], pair[1])
        if self._scope.members.index(left[0]) > self._scope.members.index(right[0]):
            left, right = right, left
        keys = [KeyPart.of(expression, common) for _, expression in (left, right)]
        self._equalities.add(Equality(left[0].alias, right[0].alias, keys[0], keys[1]))

    def _expression(self, scalar: Scalar) -> Expression:
        """What a scalar says of the only row that it reads."""
        return scalar.expression(self._site, lambda reference: self._scope.resolve(reference).expression())
