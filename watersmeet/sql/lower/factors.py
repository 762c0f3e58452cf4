"""COUNT, SUM, AVG, MIN and MAX over an acyclic equality join, as partial aggregates below the join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from watersmeet.model import Expression, KeyPart
from watersmeet.model.expression import all_of
from watersmeet.model.forms import FactorizedAggregates, Member
from watersmeet.sql.lower.final import FinalBuilder, some_row
from watersmeet.sql.lower.join_conditions import FactorizedJoin, Side
from watersmeet.sql.lower.join_partials import JoinPartials
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.relational_text import is_constant
from watersmeet.sql.resolve.resolved import ResolvedSelect
from watersmeet.sql.spark_types import INTEGERS

_Keys = dict[str, dict[int, Expression]]  # for each alias, its key in each class of equal keys


def factorized_aggregates(lowering: Lowering, query: ResolvedSelect) -> FactorizedAggregates:
    """The query with partial aggregates below its join; raises DoesNotFit."""
    if not query.aggregated:
        raise DoesNotFit("it gives rows and not aggregates")
    join = FactorizedJoin(lowering, query)
    nodes = tuple(node for node in query.group or () if not is_constant(node))
    owners = [join.alias_of(node, "a key of GROUP BY") for node in nodes]
    keys = [join.rows.key(node) for node in nodes]
    classes, types = _equal_keys(join.equalities)
    root = max(join.scans, key=owners.count)
    parents = _join_tree(list(join.scans), classes, root)
    position = {alias: at for at, alias in enumerate(parents)}
    partials = JoinPartials(join, position)
    last = FinalBuilder(
        lowering,
        [(node, key.type) for node, key in zip(nodes, keys, strict=True)],
        partials.aggregate,
    )
    nonempty = some_row(partials.add("count", (), (), "bigint")) if query.group is not None and not keys else None
    outputs, final = last.read(query, nonempty=nonempty)
    members, owned = [], list(zip(keys, owners, strict=True))
    for alias, parent in parents.items():
        shared = sorted(set(classes[alias]) & set(classes[parent])) if parent else []
        members.append(
            Member(
                alias,
                join.scans[alias].stream,
                filter=all_of(join.filters[alias]) if join.filters.get(alias) else None,
                parent=position[parent] if parent else None,
                join=tuple(KeyPart.of(classes[alias][at], types[at]) for at in shared),
                parent_join=tuple(KeyPart.of(classes[parent][at], types[at]) for at in shared) if parent else (),
                keys=tuple((at, key) for at, (key, owner) in enumerate(owned) if owner == alias),
            )
        )
    key_types = tuple(key.type for key in keys)
    return FactorizedAggregates(tuple(members), key_types, tuple(partials.listed), final, outputs)


def _equal_keys(equalities: Iterable[tuple[Side, Side]]) -> tuple[_Keys, list[str]]:
    """Classes of keys that are all equal, and the type in which each is compared."""
    classes: list[list[Side]] = []
    for pair in equalities:
        touched = [each for each in classes if any(side in each for side in pair)]
        merged = list(dict.fromkeys([side for each in touched for side in each] + list(pair)))
        classes = [each for each in classes if each not in touched] + [merged]
    keys: _Keys = {}
    types = []
    for number, sides in enumerate(classes):
        kinds = {side[1].type for side in sides}
        if len(kinds) > 1 and not kinds <= set(INTEGERS):
            raise DoesNotFit("a join compares keys of different types")
        types.append(max(kinds, key=lambda kind: INTEGERS.index(kind) if kind in INTEGERS else 0))
        for alias, key in sides:
            if number in keys.setdefault(alias, {}):
                raise DoesNotFit(f"two keys of {alias} have to be equal")
            keys[alias][number] = key
    return keys, types


def _join_tree(
    aliases: Sequence[str], keys: Mapping[str, Mapping[int, Expression]], root: str
) -> dict[str, str | None]:
    """A tree of the join along whose edges every key is shared: the parent of each alias, parents first; raises
    DoesNotFit."""
    shared = {pair: len(set(keys.get(pair[0], ())) & set(keys.get(pair[1], ()))) for pair in combinations(aliases, 2)}
    edges: list[tuple[str, str]] = []
    component = {alias: alias for alias in aliases}
    for one, other in sorted(shared, key=lambda pair: -shared[pair]):
        if shared[one, other] and component[one] != component[other]:
            edges.append((one, other))
            old = component[other]
            component = {alias: component[one] if at == old else at for alias, at in component.items()}
    if len(set(component.values())) > 1:
        raise DoesNotFit("not all aliases are joined by equalities")
    classes = {number for alias in aliases for number in keys.get(alias, ())}
    for number in classes:
        having = [alias for alias in aliases if number in keys.get(alias, ())]
        links = sum(number in keys[one] and number in keys[other] for one, other in edges)
        if links != len(having) - 1:
            raise DoesNotFit("the join is cyclic")
    parents: dict[str, str | None] = {root: None}
    waiting = [root]
    while waiting:
        here = waiting.pop(0)
        for edge in edges:
            found = next((end for end in edge if here in edge and end not in parents), None)
            if found is not None:
                parents[found] = here
                waiting.append(found)
    return parents
