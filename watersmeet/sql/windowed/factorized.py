"""Class two: COUNT, SUM, AVG, MIN and MAX over an acyclic equality join, pushed below the join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from watersmeet.model import Expression, KeyPart, Output
from watersmeet.model.expression import ColumnRef, all_of
from watersmeet.model.windowed import Factorized, JoinPartial, Member
from watersmeet.sql.bind import Binder
from watersmeet.sql.site import Site
from watersmeet.sql.spark_types import FLOATS, is_decimal
from watersmeet.sql.tree import Aggregate, Call, Node, Parenthesized
from watersmeet.sql.windowed.combine import FACTORS, NotThisClass, combined, plain_name
from watersmeet.sql.windowed.final import LastStep, some_row
from watersmeet.sql.windowed.join_tree import Side, equal_keys, join_tree
from watersmeet.sql.windowed.resolved import Bound, Joined, Nested, Scan, Select
from watersmeet.sql.windowed.sliced import Rows, argument_of
from watersmeet.sql.windowed.text import is_constant


def as_factors(site: Site, binder: Binder, query: Select) -> tuple[Factorized, tuple[Output, ...]]:
    """The query with partial aggregates below its join; raises NotThisClass."""
    if not query.aggregated:
        raise NotThisClass("it gives rows and not aggregates")
    join = _Join(Rows(site, binder, {}), {})
    join.read(query)
    nodes = tuple(node for node in query.group or () if not is_constant(node))
    owners = [join.alias_of(node, "a key of GROUP BY") for node in nodes]
    keys = [join.rows.value(node) for node in nodes]
    classes, types = equal_keys(join.equalities)
    root = max(join.scans, key=owners.count)
    parents = join_tree(list(join.scans), classes, root)
    position = {alias: at for at, alias in enumerate(parents)}
    partials = _JoinPartials(join, position)
    last = LastStep(
        site,
        binder,
        [(node, key.type) for node, key in zip(nodes, keys, strict=True)],
        partials.aggregate,
    )
    nonempty = some_row(partials.add("count", (), (), "bigint")) if query.group is not None and not keys else None
    outputs, final = last.read(query, nonempty=nonempty)
    members = []
    for alias, parent in parents.items():
        shared = sorted(set(classes[alias]) & set(classes[parent])) if parent else []
        members.append(
            Member(
                alias,
                join.scans[alias].stream,
                all_of(join.filters[alias]) if join.filters.get(alias) else None,
                position[parent] if parent else None,
                tuple(KeyPart.of(classes[alias][number], types[number]) for number in shared),
                tuple(KeyPart.of(classes[parent][number], types[number]) for number in shared) if parent else (),
                tuple((at, key) for at, (key, owner) in enumerate(zip(keys, owners, strict=True)) if owner == alias),
            )
        )
    return Factorized(tuple(members), tuple(key.type for key in keys), tuple(partials.listed), final), outputs


@dataclass
class _Join:
    """The aliases of a join by their labels, and what its conditions say."""

    rows: Rows
    scans: dict[str, Scan]
    filters: dict[str, list[Expression]] = field(default_factory=dict)
    equalities: list[tuple[Side, Side]] = field(default_factory=list)

    def read(self, query: Select) -> None:
        conditions = [query.where] if query.where is not None else []
        waiting = [query.source]
        while waiting:
            source = waiting.pop(0)
            if isinstance(source, Scan):
                self.scans[source.label] = source
            elif isinstance(source, Joined) and source.kind in ("inner", "cross"):
                waiting = [source.left, source.right, *waiting]
                conditions += [source.on] if source.on is not None else []
            else:
                what = f"{source.kind.upper()} JOIN" if isinstance(source, Joined) else "subquery in FROM"
                raise NotThisClass(f"it has a {what}")
        self.rows = self.rows.named(dict.fromkeys(self.scans, ""))
        for condition in conditions:
            for conjunct in _conjuncts(condition):
                self._condition(conjunct)

    def _condition(self, node: Node) -> None:
        aliases = self.aliases_of(node)
        if len(aliases) <= 1:
            alias = aliases[0] if aliases else next(iter(self.scans))
            self.filters.setdefault(alias, []).append(self.rows.condition(node))
            return
        sides = node.arguments if isinstance(node, Call) and node.name == "=" else ()
        owners = [self.aliases_of(side) for side in sides]
        if len(aliases) != len(owners) or any(len(each) != 1 for each in owners):
            raise NotThisClass(f"a condition reads {' and '.join(aliases)} and is no equality of two keys")
        left, right = ((owner[0], self.rows.value(side)) for owner, side in zip(owners, sides, strict=True))
        self.equalities.append((left, right))

    def aliases_of(self, node: Node) -> list[str]:
        if any(isinstance(each, Nested) for each in node.walk()):
            raise NotThisClass("it has a subquery")
        return list(dict.fromkeys(each.relation for each in node.walk() if isinstance(each, Bound)))

    def alias_of(self, node: Node, what: str) -> str:
        aliases = self.aliases_of(node)
        if len(aliases) > 1:
            raise NotThisClass(f"{what} reads {' and '.join(aliases)}")
        return aliases[0] if aliases else next(iter(self.scans))


class _JoinPartials:
    def __init__(self, join: _Join, position: dict[str, int]) -> None:
        self._join = join
        self._position = position
        self.listed: list[JoinPartial] = []

    def add(
        self,
        function: str,
        arguments: tuple[tuple[int, Expression], ...],
        filters: tuple[tuple[int, Expression], ...],
        stored: str,
    ) -> Expression:
        partial = JoinPartial(function, arguments, filters, stored)
        if partial not in self.listed:
            self.listed.append(partial)
        at = self.listed.index(partial)
        ((name, kind),) = partial.columns(at)
        return ColumnRef(name, kind)

    def aggregate(self, node: Aggregate) -> Expression:
        kind = self._join.rows.types.aggregate(node).type
        value, condition = argument_of(node, self._join.rows)
        name = "count" if node.name == "count_if" else plain_name(node.name)
        if name not in FACTORS:
            raise NotThisClass(f"{node.name} is not pushed below a join")
        filters = self._filters(condition)
        if value is None:
            return self.add("count", (), filters, "bigint")
        factors = [value] if len(self._join.aliases_of(value)) <= 1 else list(_factors(value))
        arguments = tuple(
            (self._position[self._join.alias_of(factor, f"an argument of {node.name}")], self._join.rows.value(factor))
            for factor in factors
        )
        if len({at for at, _ in arguments}) < len(arguments):
            raise NotThisClass(f"an argument of {node.name} reads several aliases")
        whole = self._join.rows.types.value(value).type
        if len(arguments) > 1 and (name != "sum" or not (is_decimal(whole) or whole in FLOATS)):
            raise NotThisClass(f"an argument of {node.name} reads several aliases")
        stood_for = ColumnRef("product", whole) if len(arguments) > 1 else arguments[0][1]

        def add(function: str, of: Expression | None, stored: str) -> Expression:
            given = arguments if of is None or len(arguments) > 1 else ((arguments[0][0], of),)
            return self.add(function, given, filters, stored)

        return combined(name, stood_for, kind, add)

    def _filters(self, condition: Node | None) -> tuple[tuple[int, Expression], ...]:
        found: dict[int, list[Expression]] = {}
        for conjunct in _conjuncts(condition) if condition is not None else ():
            at = self._position[self._join.alias_of(conjunct, "FILTER")]
            found.setdefault(at, []).append(self._join.rows.condition(conjunct))
        return tuple((at, all_of(listed)) for at, listed in sorted(found.items()))


def _conjuncts(node: Node) -> Iterator[Node]:
    while isinstance(node, Parenthesized):
        node = node.inner
    if isinstance(node, Call) and node.name == "and":
        for each in node.arguments:
            yield from _conjuncts(each)
    else:
        yield node


def _factors(node: Node) -> Iterator[Node]:
    while isinstance(node, Parenthesized):
        node = node.inner
    if isinstance(node, Call) and node.name == "*" and not node.function:
        for each in node.arguments:
            yield from _factors(each)
    else:
        yield node
