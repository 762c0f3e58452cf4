"""LEFT, RIGHT, SEMI and ANTI joins, [NOT] EXISTS and [NOT] IN: one alias of a query is its *leaf*.

All others are the preserved side, an inner join by itself. ON or the WHERE of a subquery says which rows are partners.
The WHERE of a query with a LEFT JOIN is about results: of those with a partner it is one more condition, and of those
without one it says what it says if all columns of the leaf are NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model import Equality, Leaf, Predicate, SparkCall
from watersmeet.model.expression import Expression, all_of
from watersmeet.model.join import ANTI_JOIN, LEFT_JOIN, SEMI_JOIN
from watersmeet.sql.bind import Binder
from watersmeet.sql.condition import Condition
from watersmeet.sql.functions.rendering import null
from watersmeet.sql.scope import Member, Scope
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Name, Reference, Scalar, Select, Table

_KINDS = {"left": LEFT_JOIN, "right": LEFT_JOIN, "semi": SEMI_JOIN, "anti": ANTI_JOIN}


@dataclass(frozen=True)
class LeafTable:
    """The table that is the leaf, and the one behind the words that say so."""

    at: int
    joined_at: int
    kind: str
    written: Name


def find_leaf(site: Site, tables: tuple[Table, ...]) -> LeafTable | None:
    found = [(at, table, table.written) for at, table in enumerate(tables) if table.written is not None]
    if not found:
        return None
    at, table, written = found[0]
    if len(found) > 1:
        site.fail(
            found[1][2].span,
            f"a query has one LEFT, RIGHT, SEMI or ANTI join, EXISTS or IN; this one has {len(found)}",
            detail=f"The first is {written.text}.",
            hint="write one query for each, or join the other streams with JOIN",
        )
    if table.kind == "right" and at != 1:
        site.fail(
            written.span,
            "RIGHT JOIN has more than one stream on its left",
            detail="Of a join whose rows may be missing, the missing side has to be one stream.",
            hint=f"write {table.stream.text} {table.alias.text} LEFT JOIN … and the other streams with JOIN",
        )
    return LeafTable(0 if table.kind == "right" else at, at, _KINDS[table.kind], written)


class LeafCondition:
    """What a query with a leaf asks, conjunct by conjunct."""

    def __init__(self, site: Site, scope: Scope, binder: Binder, table: LeafTable, whole: Condition) -> None:
        """`whole` takes what is about the preserved side alone."""
        self._site, self._scope, self._binder = site, scope, binder
        self.table = table
        self.whole = whole
        self.on = Condition(site, scope, binder)
        self._after = Condition(site, scope, binder)  # of results with a partner
        self._missing: dict[str, list[Expression]] = {}  # of results without one, by alias

    @property
    def member(self) -> Member:
        return self._scope.members[self.table.at]

    @property
    def preserved(self) -> list[Member]:
        return [member for member in self._scope.members if member is not self.member]

    def add(self, parsed: Select) -> None:
        for at, table in enumerate(parsed.tables):
            for conjunct in table.on.conjuncts() if table.on else ():
                if at == self.table.joined_at:
                    self._add_on(conjunct)
                else:
                    self._add_inner(conjunct)
        for conjunct in parsed.where.conjuncts() if parsed.where else ():
            read = self._read(conjunct)
            if self.member in read:
                self._add_after(conjunct)
            elif read or conjunct.is_true:
                self.whole.add(conjunct)
            else:
                self.whole.add_filter(conjunct, self.preserved[0])
        joined = parsed.tables[self.table.joined_at]
        if not self.on.joins(self.member):
            if not joined.nested and (joined.on is None or joined.on.is_true):
                self._site.fail(
                    joined.alias.span,
                    f"{self.table.written.text} has no condition",
                    hint="add ON with a condition on both sides, or USING (column)",
                )
            self.on.add_cross(self.preserved[0], self.member)

    def _read(self, scalar: Scalar) -> list[Member]:
        return [self._scope.resolve(reference).member for reference in scalar.references()]

    def _add_inner(self, conjunct: Scalar) -> None:
        if self.member in self._read(conjunct):
            self._site.fail(
                conjunct.span,
                f"this condition of an inner join reads {self.member.alias}, whose row may be missing",
                detail="Streams that are joined to the missing side would be missing with it: joins of that kind are"
                " not supported inside each other.",
                hint=f"join on columns of {' or '.join(member.alias for member in self.preserved)}, or use JOIN"
                f" for {self.member.alias}",
            )
        self.whole.add(conjunct)

    def _add_on(self, conjunct: Scalar) -> None:
        read = [member for member in self.preserved if member in self._read(conjunct)]
        if self.member in self._read(conjunct):
            self.on.add(conjunct)
        elif not read:
            if not conjunct.is_true:
                self.on.add_filter(conjunct, self.member)
        elif self.table.kind == SEMI_JOIN:
            self.whole.add(conjunct)
        elif len(read) == 1:
            self.on.add_between(conjunct, read[0], self.member)
        else:
            self._site.fail(
                conjunct.span,
                f"this condition of {self.table.written.text} reads {len(read)} aliases, but not {self.member.alias}",
                detail="It would make a row without a partner, and is tested on two rows at a time.",
                hint="use conditions on one of them, or move it to WHERE if it is to leave out results",
            )

    def _add_after(self, conjunct: Scalar) -> None:
        self._check_computed(conjunct)
        self._after.add(conjunct)
        (reader, *_) = [member for member in self.preserved if member in self._read(conjunct)] or self.preserved

        def resolve(reference: Reference) -> Expression:
            found = self._scope.resolve(reference)
            return null(found.expression().type) if found.member is self.member else found.expression()

        without = self._binder.condition(conjunct, conjunct.expression(self._site, resolve))
        self._missing.setdefault(reader.alias, []).append(without)

    def check(self, parsed: Select, lengths: list[int | None]) -> None:
        windows = [length for at, length in enumerate(lengths) if at != self.table.at]
        if self.table.kind != SEMI_JOIN and all(window is None for window in windows):
            self._site.fail(
                self.preserved[0].span,
                f"{self.table.written.text} needs a window on the side that is preserved",
                detail=f"A row of {self.preserved[0].alias} is known to have no partner when none can be inside its"
                " window any more; UNBOUNDED has no end.",
                hint=f"write {self.preserved[0].stream.name} [RANGE 10 SECONDS] {self.preserved[0].alias}",
            )
        for item in parsed.items:
            if item.scalar and self.table.kind == LEFT_JOIN:
                self._check_computed(item.scalar)

    def _check_computed(self, scalar: Scalar) -> None:
        """Reject what Spark would have to compute from a row that is not there."""

        def resolve(reference: Reference) -> Expression:
            found = self._scope.resolve(reference)
            return found.expression(found.member.alias)

        for column in scalar.expression(self._site, resolve).columns:
            if isinstance(column, SparkCall) and column.row == self.member.alias:
                self._site.fail(
                    scalar.span,
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
