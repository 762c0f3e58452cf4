"""The leaf checks of a plan as plain values, to be shown with the rest of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet.home.counters import Counters
from watersmeet.model import Query
from watersmeet.optimize.joingraph import Link, QueryGraph, stream_of
from watersmeet.optimize.problem import Problem
from watersmeet.plan.assumed import is_assumed
from watersmeet.plan.parts import JoinPart, LeafJoin, parts_of
from watersmeet.plan.ruleset import Ruleset


@dataclass(frozen=True)
class RenderedCheck:
    preserved: str  # what is checked
    leaf: str  # the stream in which partners are looked for
    wants_partner: bool
    on: tuple[str, ...]
    by: str  # hash, range or scan
    cost: float  # in the unit of the plan
    serves: tuple[str, ...]  # queries
    measured_in: int | None = None
    measured_out: int | None = None
    assumed: bool = False  # the cost is

    @property
    def wanted(self) -> str:
        return f"{'with' if self.wants_partner else 'without'} a partner in {self.leaf}"

    @property
    def when(self) -> str:
        if self.wants_partner:
            return "when the first partner or last row arrives"
        return f"when the watermark of {self.leaf} passes the deadline"


def rendered_checks(
    problem: Problem,
    queries: Sequence[Query],
    rules: Ruleset,
    measured: Counters,
    shown: Callable[[Sequence[Link]], tuple[tuple[str, ...], str]],
) -> tuple[RenderedCheck, ...]:
    """The checks of all queries. `shown` says what links are and how rows are found by them."""
    found: dict[tuple[object, LeafJoin], list[JoinPart]] = {}
    for part in parts_of(queries):
        if part.leaf is not None:
            found.setdefault((problem.graphs[part.name].whole, part.leaf), []).append(part)
    checks = []
    for (_, join), parts in found.items():
        graph, names = problem.graphs[parts[0].name], tuple(part.query.name for part in parts)
        on, by = shown(sorted(join.links, key=lambda link: link.text))
        steps = [
            step.id
            for step in rules.all_steps()
            if step.leaf is not None and any(set(emit.queries) & set(names) for emit in step.emits)
        ]
        known = any(step in measured.step_in for step in steps)
        counts = [sum(each[step] for step in steps) for each in (measured.step_in, measured.step_out)]
        checks.append(
            RenderedCheck(
                preserved=str(graph.whole),
                leaf=stream_of(join.relation),
                wants_partner=join.wants_partner,
                on=on,
                by=by,
                cost=check_cost(problem, graph, join) / (1.0 if problem.weights.once else 1e6 * problem.ticks),
                serves=names,
                measured_in=counts[0] if known else None,
                measured_out=counts[1] if known else None,
                assumed=is_assumed(problem, graph.whole) or stream_of(join.relation) not in problem.statistics.sizes,
            )
        )
    return tuple(checks)


def check_cost(problem: Problem, graph: QueryGraph, join: LeafJoin) -> float:
    """What a leaf check costs while the windows are renewed once: a probe for each preserved result, and where the
    first partner counts a probe of the preserved side and one of the leaf for each row of the leaf. It is the same for
    all plans, so that it is no part of their costs."""
    weights, statistics = problem.weights, problem.statistics
    leaf = statistics.size(stream_of(join.relation))
    one = weights.probe(leaf, 1.0, problem.buckets)
    cost = sum(problem.tuples((start, graph.whole)) for start in graph.relations) * one
    if join.wants_partner:
        rows = leaf if weights.once else leaf * statistics.turnover(stream_of(join.relation), problem.ticks)
        cost += rows * (one + weights.probe(problem.size(graph.whole), 1.0, problem.buckets))
    return cost
