"""A Solution becomes a Ruleset: paths are merged into trees, steps get their indexes, stores their columns.

Two steps are one when they follow the same steps from the same relation in the same phase, probe the same store as the
same relation by the same equalities, and see the same rows of the current tick. Windows and filters may differ.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.model import KeyPart, Query, Stream
from watersmeet.optimize.joingraph import Subquery, links_between, store_of, stream_of
from watersmeet.optimize.problem import Path, Solution
from watersmeet.plan.aliases import Aliases
from watersmeet.plan.materialize import Materialized, materialized_stores, walk_streams
from watersmeet.plan.ruleset import (
    Check,
    Emit,
    Keep,
    Key,
    Lookup,
    Member,
    ResultRule,
    Ruleset,
    Start,
    Step,
    StoreRule,
    all_steps,
    kept_name,
)
from watersmeet.store.codes import is_exact

_Sees = Callable[[Subquery], tuple[str, ...]]  # the relations whose rows of the current tick a walk sees in a store


def compile_solution(
    streams: Sequence[Stream], queries: Sequence[Query], solution: Solution, partitions: int = 1
) -> Ruleset:
    return _Compiler(streams, queries, solution, partitions).ruleset()


@dataclass
class _Node:
    """A step under construction; the root of a tree stands for the arriving row."""

    store: Subquery
    name: str
    key: Key = ()
    sources: tuple[Lookup, ...] = ()
    sees: tuple[str, ...] = ()
    windows: set[int] = field(default_factory=set)
    filters: set[str | None] = field(default_factory=set)
    ends: list[tuple[Query | Materialized, Path]] = field(default_factory=list)  # with the stores of all positions
    children: dict[object, _Node] = field(default_factory=dict)

    @property
    def any_of(self) -> tuple[str, ...]:
        return () if None in self.filters else tuple(sorted(text for text in self.filters if text is not None))


class _Compiler:
    def __init__(
        self, streams: Sequence[Stream], queries: Sequence[Query], solution: Solution, partitions: int
    ) -> None:
        self.streams = {stream.name: stream for stream in streams}
        self.queries = queries
        self.solution = solution
        self.partitions = partitions
        self.aliases = Aliases(queries)
        self.materialized = materialized_stores(self.streams, self.aliases, solution)
        self.rank = {name: at for at, name in enumerate(sorted(self.streams))}
        self.levels: dict[Subquery, int] = {}
        self.numbers = itertools.count(1)

    def ruleset(self) -> Ruleset:
        roots: dict[tuple[str, int], _Node] = {}
        for query in self.queries:
            graph = self.aliases.graphs[query.name]
            for relation in graph.relations:
                self._graft(roots, query, relation, self.solution.paths[relation, graph.whole])
        for store in self.materialized.values():
            for relation in sorted(store.subquery.relations):
                self._graft(roots, store, relation, self.solution.paths[relation, store.subquery])
        starts = [self._start(root, relation, phase) for (relation, phase), root in sorted(roots.items())]
        starts += [self._refill(store) for store in self.materialized.values()]
        starts += [self._backfill(query) for query in self.queries if query.backfill]
        draft = Ruleset("", self.partitions, (), tuple(starts), tuple(_result(query) for query in self.queries))
        read = {alias.stream for query in self.queries for alias in query.aliases}
        read |= {stream.name for stream in self.streams.values() if stream.retain != 0}
        stores = [self._stream_store(stream, draft) for stream in self.streams.values() if stream.name in read]
        stores += [self._materialized_store(store, draft) for store in self.materialized.values()]
        finished = replace(draft, stores=tuple(stores))
        finished.validate()
        return replace(finished, version=hashlib.sha256(repr(finished).encode()).hexdigest()[:16])

    # Trees ---------------------------------------------------------------------------------------

    def _graft(self, roots: dict[tuple[str, int], _Node], end: Query | Materialized, start: str, path: Path) -> None:
        phase = self._phase(start, path)
        first = Subquery(frozenset((start,)), frozenset())
        root = roots.setdefault((start, phase), _Node(first, stream_of(start)))
        self._grow(root, end, start, path, lambda store: self._sees(start, store))

    def _grow(self, node: _Node, end: Query | Materialized, start: str, path: Path, sees: _Sees) -> None:
        graph = self.aliases.graph_of(end)
        self._want(node, end, start)
        bound = [node.store]
        for store in path:
            joined = frozenset().union(*(earlier.relations for earlier in bound))
            chosen: dict[KeyPart, Lookup] = {}
            for link in links_between(graph.links, joined, store.relations):
                inner = link.left if link.left[0] in store.relations else link.right
                outer = link.right if inner is link.left else link.left
                part, lookup = _seen_in(store, *inner), _lookup(bound, *outer)
                # One equality for each attribute of the probed store; a further one is left to verification.
                if part not in chosen or _order(lookup) < _order(chosen[part]):
                    chosen[part] = lookup
            key = tuple(sorted(chosen, key=_sortable))
            sources = tuple(chosen[part] for part in key)
            name = self._name(store)
            # By relation, not only by stream: a kept row relies on the filters of all queries with just this relation.
            identity = (store, key, sources, sees(store))
            node = node.children.setdefault(identity, _Node(store, name, key, sources, sees(store)))
            for relation in store.relations:
                self._want(node, end, relation)
            bound.append(store)
        node.ends.append((end, tuple(bound)))

    def _want(self, node: _Node, end: Query | Materialized, relation: str) -> None:
        if isinstance(end, Materialized):
            node.windows |= {end.windows[relation]}
            node.filters |= set(end.filters[relation])
        else:
            node.windows.add(self.aliases.window(end, relation))
            node.filters.add(self.aliases.alias(end, relation).filter)

    def _name(self, store: Subquery) -> str:
        if store.is_stream:
            return stream_of(next(iter(store.relations)))
        return self.materialized[store].name

    def _precedes(self, relation: str, start: str) -> bool:
        """Relations have a fixed order; a row finds rows of its own tick in earlier relations only."""
        return self._position(relation) < self._position(start)

    def _position(self, relation: str) -> tuple[int, int]:
        stream, _, occurrence = relation.partition("@")
        return self.rank[stream], int(occurrence or 1)

    def _sees(self, start: str, store: Subquery) -> tuple[str, ...]:
        # A row of a materialized store is made by the last of its members: that one must precede, too.
        return tuple(sorted(relation for relation in store.relations if self._precedes(relation, start)))

    def _phase(self, start: str, path: Path) -> int:
        current = [store for store in path if not store.is_stream and self._sees(start, store)]
        return 1 + max((self._level(store) for store in current), default=0)

    def _level(self, store: Subquery) -> int:
        """The phase in which the current tick's rows of a materialized store are made."""
        if store not in self.levels:
            paths = ((relation, self.solution.paths[relation, store]) for relation in store.relations)
            self.levels[store] = max(self._phase(relation, path) for relation, path in paths)
        return self.levels[store]

    def _refill(self, store: Materialized) -> Start:
        """Phase 0: the store's rows among what is stored already, by a walk over streams only."""
        return self._stored_walk(store, *store.walk())

    def _backfill(self, query: Query) -> Start:
        """Phase 0: the query's results among what is stored already, by a walk over streams only."""
        start = self._stored_walk(query, *walk_streams(self.aliases.graphs[query.name]))
        return replace(start, backfills=query.name)

    def _stored_walk(self, end: Query | Materialized, first: str, path: Path) -> Start:
        root = _Node(Subquery(frozenset((first,)), frozenset()), stream_of(first))
        self._grow(root, end, first, path, lambda _: ())
        return self._start(root, first, 0)

    # Nodes become rules --------------------------------------------------------------------------

    def _start(self, root: _Node, relation: str, phase: int) -> Start:
        steps = tuple(self._step(child, [root]) for child in root.children.values())
        emits = tuple(self._emit(query, stores, [root]) for query, stores in root.ends if isinstance(query, Query))
        carry = _carry(steps, 1)
        return Start(relation, root.name, phase, max(root.windows), root.any_of, carry, emits, steps)

    def _step(self, node: _Node, above: list[_Node]) -> Step:
        path = [*above, node]
        number = next(self.numbers)
        steps = tuple(self._step(child, path) for child in node.children.values())
        filters = node.any_of if node.store.is_stream else ()  # its rows have passed them
        return Step(
            number,
            node.name,
            node.key,
            node.sources,
            node.sees,
            max(node.windows),
            filters,
            _carry(steps, len(path)),
            tuple(self._emit(query, stores, path) for query, stores in node.ends if isinstance(query, Query)),
            tuple(self._keep(kept, stores, path) for kept, stores in node.ends if isinstance(kept, Materialized)),
            steps,
        )

    def _emit(self, query: Query, stores: Path, path: list[_Node]) -> Emit:
        graph = self.aliases.graphs[query.name]
        at = {relation: number for number, store in enumerate(stores) for relation in store.relations}
        windows = tuple(self.aliases.window(query, relation) for relation in graph.relations)
        shared = [self._shared_windows(path[at[relation]], relation) for relation in graph.relations]
        filters = tuple(
            alias.filter if self._shared_filters(path[at[relation]], relation) != {alias.filter} else None
            for alias, relation in zip(query.aliases, graph.relations, strict=True)
        )
        exact = all(found == {own} for found, own in zip(shared, windows, strict=True))
        members, checks = self._members(query, list(graph.relations), stores, path)
        return Emit(query.name, members, None if exact else windows, filters, checks)

    def _shared_windows(self, node: _Node, relation: str) -> set[int]:
        """The windows that the rows of a relation came through: of a materialized store, those of all its makers."""
        if node.store.is_stream:
            return {max(node.windows)}
        return self.aliases.all_windows(relation)

    def _shared_filters(self, node: _Node, relation: str) -> set[str | None]:
        return node.filters if node.store.is_stream else self.aliases.all_filters(relation)

    def _keep(self, kept: Materialized, stores: Path, path: list[_Node]) -> Keep:
        return Keep(kept.name, *self._members(kept, sorted(kept.subquery.relations), stores, path))

    def _members(
        self, end: Query | Materialized, relations: list[str], stores: Path, path: list[_Node]
    ) -> tuple[tuple[Member, ...], tuple[Check, ...]]:
        at = {relation: number for number, store in enumerate(stores) for relation in store.relations}
        members = tuple(
            (at[relation], "" if stores[at[relation]].is_stream else f"{relation}.") for relation in relations
        )
        checks = []
        for link in sorted(self.aliases.graph_of(end).links, key=str):
            earlier, later = sorted((link.left, link.right), key=lambda side: at[side[0]])
            node = path[at[later[0]]]
            if at[earlier[0]] == at[later[0]]:
                continue  # proven when the materialized row was made
            wanted = (_seen_in(stores[at[later[0]]], *later), _lookup(stores, *earlier))
            proven = is_exact(node.key) and (node.key[0], node.sources[0]) == wanted
            if not proven:
                first, second = ((relations.index(relation), part) for relation, part in (earlier, later))
                checks.append((first, second))
        return members, tuple(checks)

    # Stores --------------------------------------------------------------------------------------

    def _layout(self, store: Subquery) -> KeyPart | None:
        layouts = self.solution.layouts.get(store_of(store), ())
        # Several layouts are for studying plans; a tick writes one.
        return _seen_in(store, *layouts[0]) if layouts and self.partitions > 1 else None

    def _stream_store(self, stream: Stream, draft: Ruleset) -> StoreRule:
        filters = {
            alias.filter
            for query in self.queries
            for alias in query.aliases
            if alias.stream == stream.name and alias.filter
        }
        layout = self._layout(Subquery(frozenset((stream.name,)), frozenset()))
        keys = _keys(draft, stream.name)
        if layout is None and keys and self.partitions > 1:
            layout = keys[0][0]  # a store that is probed in several places needs a rule for them
        return StoreRule(stream.name, stream.columns, keys, tuple(sorted(filters)), layout, stream.time, stream.name)

    def _materialized_store(self, store: Materialized, draft: Ruleset) -> StoreRule:
        keys = _keys(draft, store.name)
        layout = self._layout(store.subquery)
        if layout is None and keys and self.partitions > 1:
            layout = keys[0][0]
        return store.rule(keys, layout)


def _keys(draft: Ruleset, store: str) -> tuple[Key, ...]:
    # A backfill runs once; buckets derive for it what they lack, and new ones need not have it.
    lasting = [step for start in draft.starts if not start.backfills for step in all_steps(start.steps)]
    return tuple({step.key: None for step in lasting if step.store == store})


def _seen_in(store: Subquery, relation: str, part: KeyPart) -> KeyPart:
    """A key of a relation as the store that holds the relation's rows names it."""
    if store.is_stream:
        return part
    name = kept_name(f"{relation}.", part)
    return KeyPart('"' + name.replace('"', '""') + '"', part.type, name)


def _lookup(bound: Sequence[Subquery], relation: str, part: KeyPart) -> Lookup:
    position = next(at for at, store in enumerate(bound) if relation in store.relations)
    return position, _seen_in(bound[position], relation, part)


def _sortable(part: KeyPart) -> tuple[str, str]:
    return part.expression, part.type


def _order(lookup: Lookup) -> tuple[int, tuple[str, str]]:
    return lookup[0], _sortable(lookup[1])


def _carry(steps: tuple[Step, ...], bound: int) -> tuple[Lookup, ...]:
    """The codes that must travel to these steps: their own sources, and what they carry on from above."""
    needed = {lookup: None for step in steps for lookup in (*step.sources, *step.carry) if lookup[0] < bound}
    return tuple(sorted(needed, key=_order))


def _result(query: Query) -> ResultRule:
    aliases = tuple((alias.name, alias.stream) for alias in query.aliases)
    return ResultRule(query.name, aliases, query.outputs, query.sink)
