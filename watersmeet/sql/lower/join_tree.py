"""The join tree of an acyclic equality join: aliases in which every key is shared along the edges of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from watersmeet.model import Expression
from watersmeet.sql.lower.lowering import DoesNotFit
from watersmeet.sql.spark_types import INTEGERS

Side = tuple[str, Expression]  # an alias and a key over its rows
Keys = dict[str, dict[int, Expression]]  # for each alias, its key in each class of equal keys


def equal_keys(equalities: Iterable[tuple[Side, Side]]) -> tuple[Keys, list[str]]:
    """Classes of keys that are all equal, and the type in which each is compared."""
    classes: list[list[Side]] = []
    for pair in equalities:
        touched = [each for each in classes if any(side in each for side in pair)]
        merged = list(dict.fromkeys([side for each in touched for side in each] + list(pair)))
        classes = [each for each in classes if each not in touched] + [merged]
    keys: Keys = {}
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


def join_tree(aliases: Sequence[str], keys: Mapping[str, Mapping[int, Expression]], root: str) -> dict[str, str | None]:
    """The parent of each alias, in an order in which parents come first; raises DoesNotFit."""
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
