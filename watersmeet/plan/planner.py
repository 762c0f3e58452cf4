"""From streams, queries and what is known of the data to a plan: the optimizer put in charge of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.home.counters import Counters
from watersmeet.home.manifest import Manifest
from watersmeet.model import Query, Stream
from watersmeet.optimize.heuristic.greedy import no_collection
from watersmeet.optimize.heuristic.incremental import extended, kept_paths
from watersmeet.optimize.heuristic.individual import individual_cost
from watersmeet.optimize.joingraph import QueryGraph, Subquery, graph_of
from watersmeet.optimize.problem import Problem, Solution, price
from watersmeet.optimize.search import optimize
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.aliases import Aliases
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.grouping import Groups, Sample, choose_groups
from watersmeet.plan.materialize import Materialized, materialized_stores
from watersmeet.plan.render import RenderedPlan, render
from watersmeet.plan.ruleset import Ruleset

# What keeping a tuple costs (its columns, a file, indexes, merges, one more phase) against probing with one (decision
# 12). With several places a probing tuple goes through a shuffle, which costs more than a look into a table.
KEEPING, KEEPING_APART = 8.0, 2.0
# Files, merges and phases of a kept result cost something in each tick, however few its tuples are.
CLEARLY = 1.3
INDIVIDUAL_SECONDS = 2.0  # for the search of the plans that are only there to compare with


@dataclass(frozen=True)
class Plan:
    """What ticks obey from the next one on; replaced as a whole, never changed."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    problem: Problem
    solution: Solution
    rules: Ruleset
    groups: Groups = ()  # of the queries that need more than one word

    @cached_property
    def individual_cost(self) -> float:
        return individual_cost(self.problem, INDIVIDUAL_SECONDS)

    def rendered(self, measured: Counters | None = None) -> RenderedPlan:
        return render(self.problem, self.solution, self.individual_cost, self.rules, measured)


def make_plan(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    options: Options,
    statistics: Statistics | None = None,
    previous: Plan | None = None,
    quick: bool = False,
    sample: Sample = lambda _: None,
) -> Plan:
    """The best plan that `plan_seconds` allow; `quick` is for a running engine, whose next tick should not wait.

    A quick plan keeps the paths of the previous one if at most half of the queries changed, and is greedy otherwise."""
    problem = problem_of(queries, options, statistics or Statistics(), previous)
    graphs = {graph.name: graph for graph in problem.queries}
    groups = choose_groups(queries, graphs, sample, previous.groups if previous else ())
    if quick:
        with no_collection():
            solution = _quick_solution(streams, queries, problem, previous)
            return planned(streams, queries, options, problem, solution, groups)
    solution = optimize(problem, searcher=options.searcher or None, time_limit=options.plan_seconds)
    if not options.searcher and solution.materialized:
        solution = _worth_keeping(problem, solution, options.plan_seconds)
    return planned(streams, queries, options, problem, solution, groups)


def problem_of(
    queries: Sequence[Query], options: Options, statistics: Statistics, previous: Plan | None = None
) -> Problem:
    # The graphs of queries that stay are used again: they know their subqueries.
    pairs = zip(previous.queries, previous.problem.queries, strict=True) if previous else ()
    known = {query.name: (query, graph) for query, graph in pairs}

    def graph(query: Query) -> QueryGraph:
        before = known.get(query.name)
        return before[1] if before and before[0].definition == query.definition else graph_of(query)

    return Problem(
        tuple(graph(query) for query in queries),
        statistics,
        options.partitions,
        options.materialize == "on",
        options.layouts,
        options.storage_budget or None,
        options.parallelism,
        KEEPING if options.partitions == 1 else KEEPING_APART,
    )


def planned(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    options: Options,
    problem: Problem,
    solution: Solution,
    groups: Groups,
) -> Plan:
    rules = compile_solution(streams, queries, solution, problem.partitions, groups, options.sharing)
    return Plan(tuple(streams), tuple(queries), problem, solution, rules, groups)


def _worth_keeping(problem: Problem, best: Solution, seconds: float) -> Solution:
    """The best plan that keeps intermediate results, if it is clearly better than the best that keeps none."""
    flat = optimize(replace(problem, materialize=False), time_limit=seconds)
    if flat.cost > CLEARLY * best.cost:
        return best
    facts = {"searcher": flat.searcher, "bound": best.bound, "seconds": best.seconds + flat.seconds}
    return price(problem, flat.paths, flat.layouts, **facts)


def _quick_solution(
    streams: Sequence[Stream], queries: Sequence[Query], problem: Problem, previous: Plan | None
) -> Solution:
    before = {query.name: query.definition for query in previous.queries} if previous else {}
    staying = {query.name: query for query in queries if before.get(query.name) == query.definition}
    changed = len({*before, *(query.name for query in queries)}) - len(staying)
    if previous is None or 2 * changed > max(len(before), len(queries)):
        return optimize(problem, searcher="greedy")
    by_name = {stream.name: stream for stream in streams}
    stores: dict[Subquery, Materialized] = {}
    if previous.solution.materialized:
        kept = replace(previous.solution, paths=kept_paths(problem, previous.solution, staying))
        stores = materialized_stores(by_name, Aliases(list(staying.values())), kept)

    def readable(graph: QueryGraph, store: Subquery) -> bool:
        """Whether a store holds all that a new query needs: if not, its rows would have to be made anew."""
        query = next(query for query in queries if query.name == graph.name)
        return stores[store].serves(query, Aliases([query]), by_name)

    return extended(problem, previous.solution, staying, readable) or optimize(problem, searcher="greedy")


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
