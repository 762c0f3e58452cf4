"""What the conditions of a join of streams say: filters of one alias, and equalities of two."""

from __future__ import annotations

from watersmeet.model import Expression
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.slices import Rows
from watersmeet.sql.resolve.resolved import Bound, Nested, ResolvedJoin, ResolvedSelect, Scan
from watersmeet.sql.tree import Call, Scalar, conjuncts

Side = tuple[str, Expression]  # an alias and a key over its rows


class FactorizedJoin:
    """The aliases of a windowed join by their labels, and what its conditions say."""

    def __init__(self, lowering: Lowering, query: ResolvedSelect) -> None:
        self.scans: dict[str, Scan] = {}
        self.filters: dict[str, list[Expression]] = {}
        self.equalities: list[tuple[Side, Side]] = []
        conditions = [query.where] if query.where is not None else []
        waiting = [query.source]
        while waiting:
            source = waiting.pop(0)
            if isinstance(source, Scan):
                self.scans[source.label] = source
            elif isinstance(source, ResolvedJoin) and source.kind in ("inner", "cross"):
                waiting = [source.left, source.right, *waiting]
                conditions += [source.on] if source.on is not None else []
            else:
                what = f"{source.kind.upper()} JOIN" if isinstance(source, ResolvedJoin) else "subquery in FROM"
                raise DoesNotFit(f"it has a {what}")
        self.rows = Rows(lowering, dict.fromkeys(self.scans, ""))
        for condition in conditions:
            for conjunct in conjuncts(condition):
                self._condition(conjunct)

    def _condition(self, node: Scalar) -> None:
        aliases = self.aliases_of(node)
        if len(aliases) <= 1:
            alias = aliases[0] if aliases else next(iter(self.scans))
            self.filters.setdefault(alias, []).append(self.rows.condition(node))
            return
        sides = node.arguments if isinstance(node, Call) and node.name == "=" else ()
        owners = [self.aliases_of(side) for side in sides]
        if len(aliases) != len(owners) or any(len(each) != 1 for each in owners):
            raise DoesNotFit(f"a condition reads {' and '.join(aliases)} and is no equality of two keys")
        left, right = ((owner[0], self.rows.key(side)) for owner, side in zip(owners, sides, strict=True))
        self.equalities.append((left, right))

    def aliases_of(self, node: Scalar) -> list[str]:
        if any(isinstance(each, Nested) for each in node.walk()):
            raise DoesNotFit("it has a subquery")
        return list(dict.fromkeys(each.relation for each in node.walk() if isinstance(each, Bound)))

    def alias_of(self, node: Scalar, what: str) -> str:
        aliases = self.aliases_of(node)
        if len(aliases) > 1:
            raise DoesNotFit(f"{what} reads {' and '.join(aliases)}")
        return aliases[0] if aliases else next(iter(self.scans))
