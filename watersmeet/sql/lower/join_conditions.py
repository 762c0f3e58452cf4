"""What the conditions of a join of streams say: filters of one alias, and equalities of two."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.model import Expression
from watersmeet.sql.lower.combine import NotThisClass
from watersmeet.sql.lower.join_tree import Side
from watersmeet.sql.lower.rows import conjuncts
from watersmeet.sql.lower.slices import Rows
from watersmeet.sql.resolve.resolved import Bound, Joined, Nested, Scan, Select
from watersmeet.sql.tree import Call, Node


@dataclass
class Join:
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
            for conjunct in conjuncts(condition):
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
        left, right = ((owner[0], self.rows.key(side)) for owner, side in zip(owners, sides, strict=True))
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
