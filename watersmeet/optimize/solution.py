"""A solution of the optimization problem: a plan, and what it costs by the definitions of `problem`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from watersmeet.optimize.joingraph import Attribute, QueryGraph, Subquery, end_in, links_between, store_of
from watersmeet.optimize.phases import PathPhases
from watersmeet.optimize.problem import Node, Path, Problem, StepCost, Want

AT_ONCE = ("greedy", "incremental")  # searchers that ticks can wait for
Index = tuple[Subquery, frozenset[Attribute]]  # a store and a key that it is probed by


@dataclass(frozen=True)
class Solution:
    """A plan and what is known of its quality."""

    paths: Mapping[Want, Path]  # for queries and for materialized stores
    layouts: Mapping[Subquery, tuple[Attribute, ...]]  # by `store_of`
    probe_cost: float  # of all steps
    shipping: float  # of rows that are stored on top of the streams, of indexes and phases
    storage: float  # tuples
    tuples: float = 0.0  # that are sent to probes
    phases: int = 1
    repeated: float = 0.0  # cost of steps that a later phase takes again: searchers do not know it
    searcher: str = ""
    bound: float = 0.0  # proven: no plan costs less
    seconds: float = 0.0  # that the search took

    @property
    def cost(self) -> float:
        """What searchers minimize."""
        return self.probe_cost + self.shipping

    @property
    def expected(self) -> float:
        """What a running plan costs."""
        return self.cost + self.repeated

    @property
    def optimal(self) -> bool:
        return self.cost <= self.bound * (1 + 1e-6) + 1e-9

    @property
    def is_searched(self) -> bool:
        """Whether it was looked for, not only made at once."""
        return self.searcher not in AT_ONCE

    @cached_property
    def materialized(self) -> tuple[Subquery, ...]:
        used = {store for path in self.paths.values() for store in path if not store.is_stream}
        return tuple(sorted(used, key=lambda sub: sub.sort_key))


@dataclass(frozen=True)
class Move:
    """A step of a plan: the partial results at `node` probe `store` and reach `joined`."""

    node: Node
    store: Subquery
    joined: Subquery


def moves_of(want: Want, path: Path, query: QueryGraph) -> list[Move]:
    """The steps of a path to a want within a query that contains it."""
    start, target = want
    here = query.within(frozenset((start,)))
    moves = []
    for store in path:
        there = query.within(here.relations | store.relations)
        moves.append(Move((start, here), store, there))
        here = there
    assert here == target, f"a path from {start} ends at {here}, not at {target}"
    return moves


@dataclass(frozen=True)
class PricedMove:
    """A step of a plan with what it costs there."""

    cost: float
    flow: float  # tuples at its node that some query wants
    copies: int  # partitions that each tuple is sent to
    index: Index | None  # that it needs
    wants: tuple[Want, ...]  # whose paths have it


def priced(
    problem: Problem, paths: Mapping[Want, Path], layouts: Mapping[Subquery, tuple[Attribute, ...]]
) -> dict[Move, PricedMove]:
    """The steps that these paths have, each once."""
    users: dict[Move, list[Want]] = {}
    for want, path in paths.items():
        for move in moves_of(want, path, problem.host(want[1])):
            users.setdefault(move, []).append(want)
    found = {}
    for move, wants in users.items():
        (_, here), joined = move.node, move.joined
        known = list(links_between(joined.links, here.relations, move.store.relations))
        held = layouts.get(store_of(move.store), ())
        step: StepCost = problem.step(move.node, move.store, joined, known, held)
        copies = problem.copies(move.store, known, held)
        cost = max(problem.needed(step, want, here, joined) for want in wants) + step.fixed
        if step.equality and copies > 1:
            cost += problem.broadcast(step, move.node, joined)
        flow = max(problem.wanted.share(want, here) for want in wants) * problem.tuples(move.node)
        ends = frozenset(end_in(move.store, link) for link in known if link.theta is None)
        index = (store_of(move.store), ends) if ends else None
        found[move] = PricedMove(cost=cost, flow=flow, copies=copies, index=index, wants=tuple(wants))
    return found


def price(
    problem: Problem, paths: Mapping[Want, Path], layouts: Mapping[Subquery, tuple[Attribute, ...]], **facts: object
) -> Solution:
    """The Solution that these paths and layouts are, with its costs by the definitions of `problem`."""
    moves = priced(problem, paths, layouts)
    stores = {move.store for move in moves if not move.store.is_stream}
    indexes = {move.index for move in moves.values() if move.index is not None}
    shipping = sum(problem.indexing(store) for store, _ in indexes)
    storage = 0.0
    for store in (*problem.streams, *stores):
        copies = max(1, len(layouts.get(store, ())))
        storage += problem.stored(store) * copies
        # A stream is stored in any case; only what comes on top of that is a choice.
        extra = copies - 1 if store.is_stream else copies
        shipping += problem.keeping(store) * extra if extra else 0.0
    phases, repeated = 1, 0.0
    if stores:
        order = PathPhases(paths)
        phases = order.count
        if problem.has_phases:
            repeated = sum(
                move.cost * (len({order.chosen[want] for want in move.wants}) - 1) for move in moves.values()
            )
    shipping += problem.phases(phases)
    return Solution(
        paths=dict(paths),
        layouts=dict(layouts),
        probe_cost=sum(move.cost for move in moves.values()),
        shipping=shipping,
        storage=storage,
        tuples=sum(move.flow * move.copies for move in moves.values()),
        phases=phases,
        repeated=repeated,
        **facts,  # type: ignore[arg-type]
    )


def allows(problem: Problem, plan: Solution) -> bool:
    """Whether a plan, perhaps made for other settings, is one of the problem's."""
    return (
        all(want in plan.paths for want in problem.wants)
        and (problem.storage_budget is None or plan.storage <= problem.storage_budget * (1 + 1e-9))
        and (problem.materialize or not plan.materialized)
        and (problem.layouts == "many" or all(len(held) <= 1 for held in plan.layouts.values()))
    )
