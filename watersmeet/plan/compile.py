"""A Solution becomes a Ruleset: probe orders are merged into trees, steps get their indexes, stores their parts.

Two steps are one when they follow the same steps from the same stream, probe the same store by the same
equalities, and agree on whether rows of the current tick are seen. Windows and filters may differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.model import KeyPart, Query, Stream
from watersmeet.optimize.solution import Solution
from watersmeet.plan.ruleset import UNBOUNDED, Emit, Key, Lookup, ResultRule, Ruleset, Start, Step, StoreRule
from watersmeet.store.codes import is_exact


@dataclass
class _Node:
    """A step under construction; the root of a tree stands for the arriving row."""

    store: str
    key: Key = ()
    sources: tuple[Lookup, ...] = ()
    sees_current: bool = False
    windows: set[int] = field(default_factory=set)
    filters: set[str | None] = field(default_factory=set)
    ends: list[tuple[Query, tuple[str, ...]]] = field(default_factory=list)
    children: dict[object, _Node] = field(default_factory=dict)

    @property
    def window(self) -> int:
        return max(self.windows)

    @property
    def any_of(self) -> tuple[str, ...]:
        return () if None in self.filters else tuple(sorted(text for text in self.filters if text is not None))


def compile_solution(
    streams: Sequence[Stream], queries: Sequence[Query], solution: Solution, partitions: int = 1
) -> Ruleset:
    rank = {stream.name: at for at, stream in enumerate(sorted(streams, key=lambda stream: stream.name))}
    roots: dict[str, _Node] = {}
    for query in queries:
        for start in query.aliases:
            _graft(roots, query, solution.orders[query.name, start.name], rank)
    counter = iter(range(1, 1 << 30))
    starts = tuple(_start(root, counter) for _, root in sorted(roots.items()))
    draft = Ruleset("", partitions, (), starts, tuple(_result(query) for query in queries))
    read = {alias.stream for query in queries for alias in query.aliases}
    stores = tuple(_store(stream, draft, queries, solution) for stream in streams if stream.name in read)
    finished = replace(draft, stores=stores)
    finished.validate()
    return replace(finished, version=hashlib.sha256(repr(finished).encode()).hexdigest()[:16])


def window_of(window: int | None) -> int:
    return UNBOUNDED if window is None else min(window, UNBOUNDED)


def _graft(roots: dict[str, _Node], query: Query, order: tuple[str, ...], rank: dict[str, int]) -> None:
    start = query.by_name[order[0]]
    node = roots.setdefault(start.stream, _Node(start.stream))
    _want(node, query, start.name)
    for at, name in enumerate(order[1:], 1):
        alias = query.by_name[name]
        if alias.stream == start.stream:
            sees_current = query.position[name] < query.position[start.name]
        else:
            sees_current = rank[alias.stream] < rank[start.stream]
        key, sources = _key(query, order[:at], name)
        identity = (alias.stream, key, sources, sees_current)
        node = node.children.setdefault(identity, _Node(alias.stream, key, sources, sees_current))
        _want(node, query, name)
    node.ends.append((query, order))


def _want(node: _Node, query: Query, alias: str) -> None:
    node.windows.add(window_of(query.by_name[alias].window))
    node.filters.add(query.by_name[alias].filter)


def _key(query: Query, bound: tuple[str, ...], alias: str) -> tuple[Key, tuple[Lookup, ...]]:
    """The index key of a step. One equality for each attribute of the probed store; any further one on the
    same attribute is left to verification."""
    chosen: dict[KeyPart, Lookup] = {}
    for equality in query.between(frozenset(bound), alias):
        other = equality.other(alias)
        lookup = (bound.index(other), equality.key_of(other))
        part = equality.key_of(alias)
        if part not in chosen or _lookup_order(lookup) < _lookup_order(chosen[part]):
            chosen[part] = lookup
    parts = tuple(sorted(chosen, key=_sortable))
    return parts, tuple(chosen[part] for part in parts)


def _sortable(part: KeyPart) -> tuple[str, str]:
    return part.expression, part.type


def _lookup_order(lookup: Lookup) -> tuple[int, tuple[str, str]]:
    return lookup[0], _sortable(lookup[1])


def _start(root: _Node, counter: Iterator[int]) -> Start:
    steps = tuple(_step(child, counter, [root]) for child in root.children.values())
    emits = tuple(_emit(query, order, [root]) for query, order in root.ends)
    return Start(root.store, root.window, root.any_of, _carry(steps, 1), emits, steps)


def _step(node: _Node, counter: Iterator[int], above: list[_Node]) -> Step:
    path = [*above, node]
    number = next(counter)
    steps = tuple(_step(child, counter, path) for child in node.children.values())
    emits = tuple(_emit(query, order, path) for query, order in node.ends)
    carry = _carry(steps, len(path))
    return Step(
        number, node.store, node.key, node.sources, node.sees_current, node.window, node.any_of, carry, emits, steps
    )


def _carry(steps: tuple[Step, ...], bound: int) -> tuple[Lookup, ...]:
    """The codes that must travel to these steps: their own sources, and what they carry on from above."""
    needed: dict[Lookup, None] = {}
    for step in steps:
        for lookup in (*step.sources, *step.carry):
            if lookup[0] < bound:
                needed[lookup] = None
    return tuple(sorted(needed, key=_lookup_order))


def _emit(query: Query, order: tuple[str, ...], path: list[_Node]) -> Emit:
    position = {name: at for at, name in enumerate(order)}
    own_windows = tuple(window_of(alias.window) for alias in query.aliases)
    shared = tuple(path[position[alias.name]].window for alias in query.aliases)
    filters = tuple(
        alias.filter if path[position[alias.name]].filters != {alias.filter} else None for alias in query.aliases
    )
    return Emit(
        query.name,
        tuple(position[alias.name] for alias in query.aliases),
        own_windows if own_windows != shared else None,
        filters,
        _unproven(query, position, path),
    )


def _unproven(query: Query, position: dict[str, int], path: list[_Node]) -> tuple[tuple[Lookup, Lookup], ...]:
    """The equalities that no exact index lookup on the way has established."""
    left_over = []
    for equality in query.equalities:
        ends = sorted(
            ((position[name], equality.key_of(name)) for name in (equality.left, equality.right)),
            key=lambda end: end[0],
        )
        earlier, later = ends
        node = path[later[0]]
        if not (is_exact(node.key) and node.key[0] == later[1] and node.sources[0] == earlier):
            left_over.append((earlier, later))
    return tuple(left_over)


def _store(stream: Stream, draft: Ruleset, queries: Sequence[Query], solution: Solution) -> StoreRule:
    layout = solution.layouts.get(stream.name) if draft.partitions > 1 else None
    keys: dict[Key, None] = {step.key: None for step in draft.all_steps() if step.store == stream.name}
    filters = {
        alias.filter for query in queries for alias in query.aliases if alias.stream == stream.name and alias.filter
    }
    return StoreRule(stream.name, stream.columns, stream.time, tuple(keys), tuple(sorted(filters)), layout)


def _result(query: Query) -> ResultRule:
    aliases = tuple((alias.name, alias.stream) for alias in query.aliases)
    return ResultRule(query.name, aliases, query.outputs, query.sink)
