"""A Solution becomes a Ruleset: paths are merged into trees, steps get their indexes, stores their columns.

Two steps are one when they follow the same steps from the same relation in the same phase, probe the same store by the
same equalities and other predicates, and see the same rows of the current tick. Windows and filters may differ. Only
groups that are a part of one class (see grouping) have steps of their own.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from watersmeet.model import Expression, KeyPart, Query, Sink, Stream
from watersmeet.model.expression import all_of
from watersmeet.optimize.joingraph import QueryGraph, Subquery, links_between, relations_of, single, stream_of
from watersmeet.optimize.phases import PathPhases, seen
from watersmeet.optimize.problem import Path
from watersmeet.optimize.solution import Solution
from watersmeet.plan.access import lookup_in, member_in, order_of, predicates_between, seen_in
from watersmeet.plan.grouping import Group, Groups, make_groups
from watersmeet.plan.leaves import (
    ARRIVAL,
    FIRST_PARTNER,
    NOBODY,
    Use,
    backfill_use,
    due_uses,
    leaf_check,
    proving_key,
    with_leaf,
)
from watersmeet.plan.materialize import Materialized, materialized_stores, walk_streams
from watersmeet.plan.nodes import StepNode, carried
from watersmeet.plan.parts import JoinPart, parts_of
from watersmeet.plan.ruleset import (
    Check,
    Emit,
    Lookup,
    Materialize,
    Member,
    QueryOutput,
    Ruleset,
    Start,
    Step,
    kept_filter,
)
from watersmeet.plan.store_needs import NONE_SELDOM, Seldom, without_indexes
from watersmeet.plan.stores import StorePlanner
from watersmeet.store.derived import Bit, Block

_Sees = Callable[[Subquery], tuple[str, ...]]  # the relations whose rows of the current tick a walk sees in a store


def compile_solution(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    solution: Solution,
    partitions: int = 1,
    groups: Groups = (),
    sharing: str = "groups",
    seldom: Seldom = NONE_SELDOM,
    all_rows: Collection[str] = (),
) -> Ruleset:
    """The Ruleset of a solution. `all_rows` are streams whose every row is stored, whoever reads them."""
    compiler = _Compiler(
        streams=streams, queries=queries, solution=solution, partitions=partitions, groups=groups, sharing=sharing
    )
    draft = compiler.ruleset()
    stores = StorePlanner(draft, queries, solution, all_rows).rules(streams, compiler.materialized.values())
    finished = without_indexes(replace(draft, stores=stores), compiler.name_of, seldom)
    finished.validate()
    return replace(finished, version=hashlib.sha256(repr(finished).encode()).hexdigest()[:16])


class _Compiler:
    def __init__(
        self,
        streams: Sequence[Stream],
        queries: Sequence[Query],
        solution: Solution,
        partitions: int,
        groups: Groups,
        sharing: str,
    ) -> None:
        self.streams = {stream.name: stream for stream in streams}
        self.queries = queries
        self.solution = solution
        self.partitions = partitions
        self.parts = parts_of(queries)
        self.groups = make_groups(self.parts, {part.name: part.graph for part in self.parts}, groups, sharing)
        self.materialized = materialized_stores(self.parts, solution)
        self.phases = PathPhases(solution.paths)
        self.blocks: dict[Block, Block] = {}  # equal ones are one, or each would get a name of its own
        self.numbers = itertools.count(1)

    def ruleset(self) -> Ruleset:
        """All rules but those of the stores, which follow from them."""
        roots: dict[tuple[str, int], StepNode] = {}
        for group in self.groups:
            for relation in group.graph.relations:
                self._graft(roots, group, relation, self.solution.paths[relation, group.graph.whole])
        for store in self.materialized.values():
            for relation in sorted(store.subquery.relations):
                self._graft(roots, store, relation, self.solution.paths[relation, store.subquery])
        starts = [self._start(root, relation, phase) for (relation, phase), root in sorted(roots.items())]
        # Phase 0: a materialized store's rows among what is stored already, by a walk over streams only.
        starts += [self._stored_walk(store, *walk_streams(store.graph)) for store in self.materialized.values()]
        starts += [self._backfill(part) for part in self.parts if part.is_backfilled]
        starts += [start for group in self.groups for start in self._leaf_starts(group)]
        return Ruleset("", self.partitions, (), tuple(starts), self._results())

    # Trees ---------------------------------------------------------------------------------------

    def _graft(self, roots: dict[tuple[str, int], StepNode], end: Group | Materialized, start: str, path: Path) -> None:
        phase = self.phases.chosen[start, end.graph.whole]
        first = single(start)
        root = roots.setdefault((start, phase), StepNode(first, stream_of(start)))
        self._grow(root, end, start, path, lambda store: seen(start, store))

    def _grow(
        self, node: StepNode, end: Group | Materialized, start: str, path: Path, sees: _Sees, use: Use = ARRIVAL
    ) -> None:
        leaf = end.leaf
        graph = with_leaf(end.graph, leaf) if leaf else end.graph
        first = single(start)
        self._want(node, end, first)
        bound = [first]
        for store in path:
            found = self._probing(graph, bound, store, sees(store))
            node = node.children.setdefault((found.identity, end.branch), found)
            self._want(node, end, store)
            bound.append(store)
        if leaf:
            own = single(leaf.relation)
            others = [NOBODY if store == own else store for store in bound]
            found = self._probing(graph, others, own, (leaf.relation,) if use.sees else ())
            found.leaf = leaf_check(leaf, use, others, found, self.streams[found.name])
            node = node.children.setdefault((end.name, use), found)
            self._want(node, end, own)
        if isinstance(end, Materialized):
            node.kept.append((end, tuple(bound)))
        else:
            node.emitted.append((end, tuple(bound)))

    def _probing(self, graph: QueryGraph, bound: list[Subquery], store: Subquery, sees: tuple[str, ...]) -> StepNode:
        joined = frozenset().union(*(earlier.relations for earlier in bound))
        chosen: dict[KeyPart, Lookup] = {}
        links = list(links_between(graph.links, joined, store.relations))
        for link in (link for link in links if link.theta is None):
            inner, outer = link.ends(store.relations)
            part, lookup = seen_in(store, *inner), lookup_in(bound, *outer)
            # One equality for each attribute of the probed store; a further one is left to verification.
            if part not in chosen or order_of(lookup) < order_of(chosen[part]):
                chosen[part] = lookup
        key = tuple(sorted(chosen, key=lambda part: part.sort_key))
        sources = tuple(chosen[part] for part in key)
        span, tests = predicates_between(links, bound, store, by_range=not key)
        return StepNode(
            store=store, name=self.name_of(store), key=key, sources=sources, sees=sees, range=span, tests=tests
        )

    def _want(self, node: StepNode, end: Group | Materialized, store: Subquery) -> None:
        bits: tuple[Bit, ...]
        if isinstance(end, Materialized):
            node.windows |= {end.windows[relation] for relation in store.relations}
            # Rows of a store that another one is made of have passed the filters of more readers than this one has.
            bits = (end.alternatives(next(iter(store.relations))) if store.is_stream else (),)
        else:
            for query in end.queries:
                node.windows |= {query.window(relation) for relation in store.relations}
            bits = tuple(self._filter(store, query) for query in end.queries)
        block = Block(bits) if any(bits) else Block()
        node.asks[end.name] = self.blocks.setdefault(block, block)

    def _filter(self, store: Subquery, query: JoinPart) -> Bit:
        """What a query asks of the rows of a store: of a stream its filter, otherwise what the kept columns say."""
        if store.is_stream:
            wanted = query.by_relation[next(iter(store.relations))].filter
            return (wanted,) if wanted is not None else ()
        made = self.materialized[store]
        asked: list[Expression] = []
        for relation in sorted(store.relations):
            wanted = query.by_relation[relation].filter
            if wanted is not None and made.filters[relation] != {wanted}:
                asked.append(kept_filter(f"{relation}.", wanted))
        return (all_of(asked),) if asked else ()

    def name_of(self, store: Subquery) -> str:
        if store.is_stream:
            return stream_of(next(iter(store.relations)))
        return self.materialized[store].name

    def _backfill(self, part: JoinPart) -> Start:
        """Phase 0: the query's results among what is stored already, by a walk over streams only."""
        ordered = replace(part.graph, relations=tuple(sorted(part.graph.relations)))
        leaf = part.leaf
        group = Group(f"backfill {part.name}", (part,), ordered, "", leaf)
        start = self._stored_walk(group, *walk_streams(part.graph), backfill_use(leaf) if leaf else ARRIVAL)
        return replace(start, backfills=part.query.name)

    def _leaf_starts(self, group: Group) -> list[Start]:
        """The starts of leaf checks: they find results besides those that preserved rows find when they arrive."""
        if group.leaf is None:
            return []
        if group.leaf.wants_partner:
            graph = with_leaf(group.graph, group.leaf)
            start = self._stored_walk(group, *walk_streams(graph, group.leaf.relation), FIRST_PARTNER)
            starts = [replace(start, by_key=proving_key(start))]
        else:
            stream = stream_of(group.leaf.relation)
            starts = [
                replace(self._stored_walk(group, *walk_streams(group.graph, use.due), use), due=stream)
                for use in due_uses(group.leaf)
            ]
        return [replace(start, phase=1, of=group.name) for start in starts]

    def _stored_walk(self, end: Group | Materialized, first: str, path: Path, use: Use = ARRIVAL) -> Start:
        """A walk that sees rows of earlier ticks only."""
        root = StepNode(single(first), stream_of(first))
        self._grow(root, end, first, path, lambda _: (), use)
        return self._start(root, first, 0)

    # Nodes become rules --------------------------------------------------------------------------

    def _start(self, root: StepNode, relation: str, phase: int) -> Start:
        steps = tuple(self._step(child, [root]) for child in root.children.values())
        emits = tuple(self._emit(group, stores, [root]) for group, stores in root.emitted)
        carry = carried(steps, 1)
        return Start(
            relation=relation,
            stream=root.name,
            phase=phase,
            window=max(root.windows),
            groups=root.groups,
            carry=carry,
            emits=emits,
            steps=steps,
        )

    def _step(self, node: StepNode, above: list[StepNode]) -> Step:
        path = [*above, node]
        number = next(self.numbers)
        steps = tuple(self._step(child, path) for child in node.children.values())
        return Step(
            id=number,
            store=node.name,
            key=node.key,
            sources=node.sources,
            sees=node.sees,
            window=max(node.windows),
            groups=node.groups,
            carry=carried(steps, len(path)),
            emits=tuple(self._emit(group, stores, path) for group, stores in node.emitted),
            materialized=tuple(self._keep(kept, stores, path) for kept, stores in node.kept),
            steps=steps,
            range=node.range,
            tests=node.tests,
            leaf=node.leaf,
        )

    def _emit(self, group: Group, stores: Path, path: list[StepNode]) -> Emit:
        names = tuple(part.query.name for part in group.queries)
        if group.leaf is not None:  # the leaf check has cut windows
            members, checks = self._members(group, sorted((*group.graph.relations, group.leaf.relation)), stores, path)
            return Emit(group.name, names, members, None, checks)
        relations = group.graph.relations
        windows = tuple(tuple(query.window(relation) for relation in relations) for query in group.queries)
        shared = self._shared_windows(relations, stores, path)
        members, checks = self._members(group, list(relations), stores, path)
        return Emit(group.name, names, members, None if set(windows) == {shared} else windows, checks)

    def _shared_windows(self, relations: Sequence[str], stores: Path, path: list[StepNode]) -> tuple[int, ...]:
        """The windows that the rows of each relation came through."""
        at = {relation: number for number, store in enumerate(stores) for relation in store.relations}
        return tuple(
            max(path[at[relation]].windows)
            if stores[at[relation]].is_stream
            else self.materialized[stores[at[relation]]].windows[relation]
            for relation in relations
        )

    def _keep(self, kept: Materialized, stores: Path, path: list[StepNode]) -> Materialize:
        relations = sorted(kept.subquery.relations)
        own = tuple(kept.windows[relation] for relation in relations)
        members, checks = self._members(kept, relations, stores, path)
        exact = self._shared_windows(relations, stores, path) == own
        return Materialize(kept.name, kept.name, members, None if exact else own, checks)

    def _members(
        self, end: Group | Materialized, relations: list[str], stores: Path, path: list[StepNode]
    ) -> tuple[tuple[Member, ...], tuple[Check, ...]]:
        at = {relation: number for number, store in enumerate(stores) for relation in store.relations}
        members = tuple(member_in(stores, relation) for relation in relations)
        checks = []
        leaf = end.leaf
        links = with_leaf(end.graph, leaf).links if leaf and leaf.relation in at else end.graph.links
        equalities = [link for link in links if link.theta is None]
        for link in sorted(equalities, key=lambda link: link.text):
            earlier, later = sorted((link.left, link.right), key=lambda side: at[side[0]])
            node = path[at[later[0]]]
            if at[earlier[0]] == at[later[0]]:
                continue  # proven when the materialized row was made
            if not node.proves(seen_in(stores[at[later[0]]], *later), lookup_in(stores, *earlier)):
                first, second = ((relations.index(relation), part) for relation, part in (earlier, later))
                checks.append((first, second))
        return members, tuple(checks)

    def _results(self) -> tuple[QueryOutput, ...]:
        found = []
        for query in sorted(self.queries, key=lambda query: query.is_windowed):
            if query.join is not None:
                relations = tuple(relations_of(query.join).values())
                ordered = sorted(relations)
                members = tuple(ordered.index(relation) for relation in relations)
                names = tuple(alias.name for alias in query.join.aliases)
                sink = Sink() if query.is_windowed else query.sink  # of its windows, not of the join below them
                found.append(QueryOutput(query.name, names, members, query.join.outputs, sink))
        return tuple(found)
