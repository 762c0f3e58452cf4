"""From streams, queries and what is known of the data to a plan: the optimizer put in charge of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from watersmeet.model import Query, Stream
from watersmeet.optimize.individual import individual_cost
from watersmeet.optimize.joingraph import graph_of
from watersmeet.optimize.problem import Problem, Solution
from watersmeet.optimize.search import optimize
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.render import RenderedPlan, render
from watersmeet.plan.ruleset import Ruleset
from watersmeet.store.manifest import Manifest

INDIVIDUAL_SECONDS = 2.0  # for the search of the plans that are only there to compare with


@dataclass(frozen=True)
class Plan:
    """What ticks obey from the next one on; replaced as a whole, never changed."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    problem: Problem
    solution: Solution
    rules: Ruleset

    @cached_property
    def individual_cost(self) -> float:
        return individual_cost(self.problem, INDIVIDUAL_SECONDS)

    def rendered(self, measured: Mapping[str, int] | None = None) -> RenderedPlan:
        return render(self.problem, self.solution, self.individual_cost, self.rules, measured)


def make_plan(
    streams: Sequence[Stream], queries: Sequence[Query], options: Options, statistics: Statistics | None = None
) -> Plan:
    problem = Problem(
        tuple(graph_of(query) for query in queries),
        statistics or Statistics(),
        options.partitions,
        options.materialize == "on",
        options.layouts,
        options.storage_budget or None,
    )
    solution = optimize(problem, searcher=options.searcher or None, time_limit=options.plan_seconds)
    rules = compile_solution(streams, queries, solution, options.partitions)
    return Plan(tuple(streams), tuple(queries), problem, solution, rules)


def statistics_of(manifest: Manifest) -> Statistics:
    """What the state itself tells: how many rows each stream has in its window."""
    rows: dict[str, float] = {}
    for bucket in manifest.buckets:
        if not bucket.made_by and bucket.store not in manifest.materialized:
            rows[bucket.store] = rows.get(bucket.store, 0.0) + bucket.rows
    return Statistics(rows)


def window_seconds(queries: Sequence[Query]) -> dict[str, float]:
    """For each stream its longest bounded window, by which a rate becomes a size."""
    found: dict[str, float] = {}
    for query in queries:
        for alias in query.aliases:
            if alias.window is not None:
                found[alias.stream] = max(found.get(alias.stream, 0.0), alias.window / 1e6)
    return found
