"""LEFT, RIGHT, SEMI and ANTI joins, [NOT] EXISTS and [NOT] IN: one alias of a query is its *leaf*.

All others are the preserved side, an inner join by itself. ON or the WHERE of a subquery says which rows are partners.
The WHERE of a query with a LEFT JOIN is about results: of those with a partner it is one more condition, and of those
without one it says what it says if all columns of the leaf are NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.model import Equality, Leaf, Predicate, SparkCall
from watersmeet.model.expression import Expression, all_of, column_ref
from watersmeet.model.join import ANTI_JOIN, LEFT_JOIN, SEMI_JOIN
from watersmeet.sql.functions.rendering import null
from watersmeet.sql.lower.conditions import Condition
from watersmeet.sql.lower.rows import JoinAlias, JoinScalars, is_true
from watersmeet.sql.resolve.resolved import Bound, Nested
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Name
from watersmeet.sql.tree import Scalar, conjuncts

_NO_NAME = Name("", (0, 1))
_KINDS = {"left": LEFT_JOIN, "right": LEFT_JOIN, "semi": SEMI_JOIN, "anti": ANTI_JOIN}


@dataclass(frozen=True)
class JoinedTable:
    """One alias with what joins it to those before it."""

    member: JoinAlias
    kind: str = ""  # left, right, semi or anti; "": an inner join
    on: tuple[Scalar, ...] = ()
    written: Name = _NO_NAME
    is_cross: bool = False
    is_nested: bool = False  # of a subquery
    before: int = 0  # tables on the left of its join


@dataclass(frozen=True)
class LeafTable:
    """The place of the leaf among the tables, and of the table behind the words of its join (of RIGHT JOIN another)."""

    at: int
    joined_at: int
    kind: str
    written: Name


def find_leaf(site: Site, tables: Sequence[JoinedTable]) -> LeafTable | None:
    found = [(at, table) for at, table in enumerate(tables) if table.kind]
    if not found:
        return None
    at, table = found[0]
    # EXISTS and IN of a subquery in FROM whose rows may be missing, or are only looked for, are a part of ON.
    scalars = (node for each in tables for condition in each.on for node in condition.walk())
    others = [each.written.span for _, each in found[1:]] + [node.span for node in scalars if isinstance(node, Nested)]
    if others:
        site.fail(
            others[0],
            f"a query has one LEFT, RIGHT, SEMI or ANTI join, EXISTS or IN; this one has {len(others) + 1}",
            detail=f"The first is {table.written.text}.",
            hint="write one query for each, or join the other streams with JOIN",
        )
    if table.kind == "right" and table.before != 1:
        site.fail(
            table.written.span,
            "RIGHT JOIN has more than one stream on its left",
            detail="Of a join whose rows may be missing, the missing side has to be one stream.",
            hint=f"write {table.member.stream} {table.member.alias} LEFT JOIN … and the other streams with JOIN",
        )
    return LeafTable(at - 1 if table.kind == "right" else at, at, _KINDS[table.kind], table.written)


class LeafCondition:
    """The conditions of a query with a leaf: of the preserved side, of partners, of results with and without one."""

    def __init__(self, scalars: JoinScalars, table: LeafTable, whole: Condition) -> None:
        """`whole` takes what is about the preserved side alone."""
        self._scalars, self._site, self._check = scalars, scalars.site, scalars.check
        self.table = table
        self.whole = whole
        self.on = Condition(scalars)
        self._after = Condition(scalars)  # of results with a partner
        self._missing: dict[str, list[Expression]] = {}  # of results without one, by alias

    @property
    def member(self) -> JoinAlias:
        return self._scalars.members[self.table.at]

    @property
    def preserved(self) -> list[JoinAlias]:
        return [member for member in self._scalars.members if member is not self.member]

    def add(self, tables: Sequence[JoinedTable], where: Iterable[Scalar]) -> None:
        for at, table in enumerate(tables):
            for conjunct in (each for condition in table.on for each in conjuncts(condition)):
                if at == self.table.joined_at:
                    self._add_on(conjunct)
                else:
                    self._add_inner(conjunct)
        for conjunct in where:
            if self.member in self._scalars.read(conjunct):
                self._add_after(conjunct)
            else:
                self._add_preserved(conjunct)
        joined = tables[self.table.joined_at]
        if not self.on.joins(self.member):
            if not joined.is_nested and all(is_true(each) for each in joined.on):
                self._site.fail(
                    joined.member.span,
                    f"{self.table.written.text} has no condition",
                    hint="add ON with a condition on both sides, or USING (column)",
                )
            self.on.add_cross(self.preserved[0], self.member)

    def _add_inner(self, conjunct: Scalar) -> None:
        if self.member in self._scalars.read(conjunct):
            self._site.fail(
                conjunct.span,
                f"this condition of an inner join reads {self.member.alias}, whose row may be missing",
                detail="Streams that are joined to the missing side would be missing with it: joins of that kind are"
                " not supported inside each other.",
                hint=f"join on columns of {' or '.join(member.alias for member in self.preserved)}, or use JOIN"
                f" for {self.member.alias}",
            )
        self._add_preserved(conjunct)

    def _add_preserved(self, conjunct: Scalar) -> None:
        if self._scalars.read(conjunct) or is_true(conjunct):
            self.whole.add(conjunct)
        else:
            self.whole.add_filter(conjunct, self.preserved[0])

    def _add_on(self, conjunct: Scalar) -> None:
        read = self._scalars.read(conjunct)
        preserved = [member for member in read if member is not self.member]
        if self.member in read:
            self.on.add(conjunct)
        elif not read:
            if not is_true(conjunct):
                self.on.add_filter(conjunct, self.member)
        elif self.table.kind == SEMI_JOIN:
            self.whole.add(conjunct)
        elif len(preserved) == 1:
            self.on.add_between(conjunct, preserved[0], self.member)
        else:
            self._site.fail(
                conjunct.span,
                f"this condition of {self.table.written.text} reads {len(preserved)} aliases, but not "
                f"{self.member.alias}",
                detail="It would make a row without a partner, and is tested on two rows at a time.",
                hint="use conditions on one of them, or move it to WHERE if it is to leave out results",
            )

    def _add_after(self, conjunct: Scalar) -> None:
        self.check_computed(conjunct)
        self._after.add(conjunct)
        reader = next((member for member in self._scalars.read(conjunct) if member is not self.member), None)

        def column(found: Bound) -> Expression:
            is_leaf = self._scalars.member(found) is self.member
            return null(found.type) if is_leaf else column_ref(found.column, found.type, "")

        without = self._check.condition(conjunct, self._scalars.with_columns(conjunct, column))
        self._missing.setdefault((reader or self.preserved[0]).alias, []).append(without)

    def check(self, lengths: Mapping[str, int | None], outputs: Iterable[Scalar]) -> None:
        windows = [lengths[member.alias] for member in self.preserved]
        if self.table.kind != SEMI_JOIN and all(window is None for window in windows):
            self._site.fail(
                self.preserved[0].span,
                f"{self.table.written.text} needs a window on the side that is preserved",
                detail=f"A row of {self.preserved[0].alias} is known to have no partner when none can be inside its"
                " window any more; UNBOUNDED has no end.",
                hint=f"write {self.preserved[0].stream} [RANGE 10 SECONDS] {self.preserved[0].alias}",
            )
        for output in outputs if self.table.kind == LEFT_JOIN else ():
            self.check_computed(output)

    def check_computed(self, node: Scalar) -> None:
        """Reject what Spark would have to compute from a row that is not there."""
        for column in self._scalars.expression(node, lambda member: member.alias).columns:
            if isinstance(column, SparkCall) and column.row == self.member.alias:
                self._site.fail(
                    node.span,
                    f"{column.shown} is computed by Spark from rows of {self.member.alias}, which may be missing",
                    hint="select its arguments, and compute it where the results are read",
                )

    def leaf(self) -> Leaf:
        return Leaf(
            self.table.kind,
            self._after.filter_of(self.member),
            self._after.equalities(),
            self._after.predicates(),
            tuple((alias, all_of(filters)) for alias, filters in self._missing.items()),
        )

    def equalities(self) -> tuple[Equality, ...]:
        return (*self.whole.equalities(), *self.on.equalities())

    def predicates(self) -> tuple[Predicate, ...]:
        return (*self.whole.predicates(), *self.on.predicates())
