"""The planner: from streams, queries and statistics to a plan.

A plan is made when an engine starts, when its queries change, and after each epoch. What is done then is data: see
`Occasion`. Only a search that nobody waits for, or that was asked for by name, has a time limit: other plans are the
same on every machine, however busy it is. The rule for when one plan is better than another is in `comparison.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf

from watersmeet.home.counters import Counters
from watersmeet.model import Query, Stream
from watersmeet.model.forms import PairRows
from watersmeet.optimize.demands import Demand
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.heuristic.greedy import no_collection
from watersmeet.optimize.heuristic.incremental import extended, kept_paths
from watersmeet.optimize.heuristic.individual import individual_cost
from watersmeet.optimize.joingraph import QueryGraph, Subquery, relations_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.search import ITERATIONS_PER_WANT, improved, optimize, verify
from watersmeet.optimize.solution import Solution, allows, price
from watersmeet.optimize.statistics import Statistics
from watersmeet.optimize.weights import PAPER, bounded, shipped
from watersmeet.options import Options
from watersmeet.plan.comparison import Comparison
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.estimate import facts_of, results_of, window_costs
from watersmeet.plan.grouping import Groups, Sample, choose_groups, rows_in_groups
from watersmeet.plan.materialize import Materialized, materialized_stores
from watersmeet.plan.parts import JoinPart, longest_windows, parts_of
from watersmeet.plan.render import render
from watersmeet.plan.rendered import RenderedPlan
from watersmeet.plan.ruleset import UNBOUNDED, Ruleset
from watersmeet.plan.store_needs import seldom_probed
from watersmeet.store.guard import within_bounds
from watersmeet.windows.choose import leaving_queries, prices_of, with_chosen_forms
from watersmeet.windows.costs import WindowCosts
from watersmeet.windows.protocol import Planned, StoredWindows
from watersmeet.windows.table import planned_windows, streams_with_all_rows, with_windows

MOST_PRICED = 64  # windowed queries whose other forms are priced where a plan is shown
NEARLY = 1.005  # of two plans of nearly one cost, the one that is like the active plan


@dataclass(frozen=True)
class Occasion:
    """When a plan is made, and what is done then. Times are shares of the option `plan_seconds`."""

    search: float  # for a search of all plans; 0: none, because ticks or requests wait for the plan
    near: float = 0.0  # for a search that begins at the active plan
    improves: bool = False  # without such a search: the plan made at once is improved, by an effort that is counted
    keeps_paths: bool = False  # queries that stay keep their paths, if at most half of the queries changed
    has_to_pay: bool = False  # a new plan replaces the active one only if it pays


START = Occasion(search=1.0)
AT_ONCE = Occasion(search=0.0)  # a search beside the ticks finds a better plan
RESTART = Occasion(search=0.0, improves=True)
CHANGE = Occasion(search=0.0, keeps_paths=True)  # so does one beside the ticks, or the next epoch
EPOCH = Occasion(search=0.7, near=0.3, has_to_pay=True)


@dataclass(frozen=True)
class Plan:
    """What ticks follow from the next one on; replaced as a whole, never changed."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    problem: Problem
    solution: Solution
    rules: Ruleset
    groups: Groups = ()  # of the queries that need more than one word
    storage_budget: float = 0.0  # 0: no limit
    suspended: tuple[Query, ...] = ()  # there are no rules for them, but their streams are stored
    windows: Planned = field(default_factory=Planned)  # what windowed queries add: no search is needed for them
    leaving: tuple[Query, ...] = ()  # those that change their form, in the one that they had

    @cached_property
    def computed(self) -> tuple[Query, ...]:
        """The queries; one that changes its form comes twice."""
        return (*self.queries, *self.leaving)

    @cached_property
    def parts(self) -> list[JoinPart]:
        return parts_of(self.computed)

    @cached_property
    def windowed(self) -> tuple[Query, ...]:
        return tuple(query for query in self.queries if query.is_windowed)

    @cached_property
    def individual_cost(self) -> float:
        return individual_cost(self.problem)

    @cached_property
    def window_costs(self) -> WindowCosts:
        return window_costs(self.problem, self.rules, self.computed)

    @cached_property
    def prices(self) -> dict[str, dict[str, float]]:
        """By windowed query that has several forms, what each would cost in a tick; of many such queries, of some."""
        several = [query for query in self.windowed if len(query.forms) > 1][:MOST_PRICED]
        facts, of_join = facts_of(self.problem, self.rules.partitions), partial(price_of_join, problem=self.problem)
        return {query.name: prices_of(query, facts, of_join) for query in several}

    @property
    def has_choices(self) -> bool:
        """Whether there are other plans for these queries."""
        return self.problem.has_layouts or any(len(path) > 1 for path in self.solution.paths.values())

    @property
    def over_budget(self) -> float:
        """Tuples by which the streams alone exceed the storage budget; 0: the plan keeps to the budget."""
        return max(0.0, self.problem.least_storage - self.storage_budget) if self.storage_budget else 0.0

    def rendered(
        self,
        measured: Counters | None = None,
        windows: WindowCosts | None = None,
        changing: Mapping[str, int] | None = None,
    ) -> RenderedPlan:
        """`changing`: by query that changes its form, the first window of the new one."""
        return render(
            self.problem,
            self.solution,
            self.individual_cost,
            over_budget=self.over_budget,
            rules=self.rules,
            measured=measured or Counters(),
            queries=self.computed,
            costs=windows or self.window_costs,
            prices=self.prices,
            changing=changing or {},
        )


def make_plan(
    occasion: Occasion,
    streams: Sequence[Stream],
    queries: Sequence[Query],
    options: Options,
    statistics: Statistics | None = None,
    active: Plan | None = None,
    sample: Sample | None = None,
    stored: StoredWindows | None = None,
    suspended: Sequence[Query] = (),
    changed: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of all queries. Rows are stored for `suspended` ones as well, but nothing else is done for them.

    `changed`: the kinds of the forms that queries are to get instead of theirs."""
    known = stored or StoredWindows()
    if active:
        known = replace(active.windows.remembered, complete=known.complete)
    wanted = {**_forced(queries, options.research.form), **(changed or {})}
    known = known.changed(wanted)
    nothing = problem_of((), options, statistics or Statistics())
    facts, of_join = facts_of(nothing, options.partitions), partial(price_of_join, problem=nothing)
    queries, suspended = (with_chosen_forms(some, known, facts, of_join, wanted) for some in (queries, suspended))
    leaving = leaving_queries(queries, known)
    computed = (*queries, *leaving)
    all_rows = streams_with_all_rows(computed, suspended)
    plan = joined_plan(
        occasion, streams, computed, options, statistics, active=active, sample=sample, all_rows=all_rows
    )
    plan = replace(plan, queries=tuple(queries), leaving=leaving, suspended=tuple(suspended))
    windows = replace(
        planned_windows(plan.windowed, known, options.partitions, leaving),
        forms={query.name: query.form.kind for query in (*queries, *suspended) if len(query.forms) > 1},
        leaving={query.name: query.form.kind for query in leaving},
    )
    return replace(plan, windows=windows, rules=with_windows(plan.rules, windows))


def _forced(queries: Sequence[Query], kind: str) -> dict[str, str]:
    """The queries that an experiment wants in this form."""
    return {query.name: kind for query in queries if any(form.kind == kind for form in query.forms)}


def price_of_join(query: Query, problem: Problem) -> tuple[float, float]:
    """The cost of the join of a query, planned alone, and the number of its results, in a tick.

    Infinite if selectivities would be assumed, and results are aggregated: there may be far more partners for each row
    than that. Where results are what the query gives, each has to be made in every form."""
    parts = parts_of((query,))
    graphs = tuple(part.graph for part in parts)
    gives_results = query.form.kind == PairRows.kind
    if not gives_results and not all(problem.statistics.knows(link) for graph in graphs for link in graph.links):
        return inf, 0.0
    alone = replace(problem, queries=graphs, demands=demands_of(parts), storage_budget=None)
    with no_collection():
        cost = individual_cost(alone)
    return cost / alone.ticks, sum(results_of(alone, part) for part in parts) / alone.ticks


def joined_plan(
    occasion: Occasion,
    streams: Sequence[Stream],
    queries: Sequence[Query],
    options: Options,
    statistics: Statistics | None,
    active: Plan | None,
    sample: Sample | None,
    all_rows: frozenset[str],
) -> Plan:
    problem = problem_of(queries, options, statistics or Statistics(), active)
    with contextlib.nullcontext() if occasion.search else no_collection(), within_bounds(options.limits):
        groups = _groups(occasion, queries, problem, sample, active)
        solution = _solution(occasion, queries, options, problem, active)
        return compiled_plan(streams, queries, options, problem, solution, groups=groups, all_rows=all_rows)


def problem_of(
    queries: Sequence[Query], options: Options, statistics: Statistics, active: Plan | None = None
) -> Problem:
    """The optimizer's problem. If the streams alone exceed the storage budget, it is to store nothing besides them."""
    parts, research = parts_of(queries), options.research
    # The graphs of queries that stay are used again: they know their subqueries.
    pairs = zip(active.parts, active.problem.queries, strict=True) if active else ()
    known = {part.name: (part, graph) for part, graph in pairs}

    def graph(part: JoinPart) -> QueryGraph:
        before = known.get(part.name)
        return before[1] if before and before[0].definition == part.definition else part.graph

    problem = Problem(
        queries=tuple(graph(part) for part in parts),
        statistics=statistics,
        partitions=options.partitions,
        materialize=options.materialize == "on",
        layouts=research.layouts,
        storage_budget=None,
        parallelism=research.parallelism,
        weights=PAPER if research.costs == "paper" else bounded(statistics.weights, shipped(options.executor)),
        demands={} if research.costs == "paper" else demands_of(parts),
    )
    if not options.storage_budget:
        return problem
    if problem.least_storage <= options.storage_budget:
        return replace(problem, storage_budget=options.storage_budget)
    return replace(problem, materialize=False, layouts="one" if research.layouts == "many" else research.layouts)


def demands_of(parts: Sequence[JoinPart]) -> dict[str, Demand]:
    """The filters and windows of joins that do not want every row of their streams."""
    longest = longest_windows(alias for part in parts for alias in part.join.aliases)
    found = {}
    for part in parts:
        filters: dict[str, tuple[str, str]] = {}
        windows: dict[str, float] = {}
        for alias, relation in relations_of(part.join).items():
            used = part.join.by_name[alias]
            if used.filter is not None:
                filters[relation] = (used.stream, used.filter.text)
            own, widest = part.window(relation), longest[used.stream]
            if own < widest < UNBOUNDED:  # how much of an unbounded history a window has is not known
                windows[relation] = max(own, 1) / widest
        if filters or windows:
            found[part.name] = Demand(filters, windows)
    return found


def compiled_plan(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    options: Options,
    problem: Problem,
    solution: Solution,
    groups: Groups,
    all_rows: frozenset[str],
) -> Plan:
    sharing, seldom = options.research.sharing, seldom_probed(problem, solution)
    rules = compile_solution(
        streams, queries, solution, problem.partitions, groups, sharing=sharing, seldom=seldom, all_rows=all_rows
    )
    rules = replace(rules, limits=options.limits, delays=options.delay > 0, durable=options.durability == "power")
    return Plan(
        tuple(streams), tuple(queries), problem, solution, rules, groups=groups, storage_budget=options.storage_budget
    )


def _groups(
    occasion: Occasion, queries: Sequence[Query], problem: Problem, sample: Sample | None, active: Plan | None
) -> Groups:
    parts, graphs = parts_of(queries), problem.graphs
    before = active.groups if active else ()
    if not occasion.has_to_pay:
        return choose_groups(parts, graphs, sample or (lambda _: None), before)
    if sample is None:
        return before
    # Other groups move no rows, so they have no price.
    fresh = choose_groups(parts, graphs, sample)
    now, then = (rows_in_groups(parts, graphs, sample, groups) for groups in (before, fresh))
    return fresh if Comparison(now, then).pays else before


def _solution(
    occasion: Occasion,
    queries: Sequence[Query],
    options: Options,
    problem: Problem,
    active: Plan | None,
) -> Solution:
    if not occasion.search:
        kept = _with_kept_paths(queries, problem, active) if occasion.keeps_paths and active else None
        if occasion.improves:
            return improved(problem)
        return kept or optimize(problem, searcher="greedy")
    seconds = occasion.search * options.plan_seconds
    # A storage budget that the streams exceed rules materialized results out, which a certain searcher may insist on.
    named = options.searcher if problem.materialize or options.materialize == "off" else ""
    best = optimize(problem, searcher=named or None, time_limit=seconds)
    if named:
        return best
    if occasion.near and active:
        best = _near(problem, active.solution, best, occasion.near * options.plan_seconds)
    return best


def _near(problem: Problem, active: Solution, best: Solution, seconds: float) -> Solution:
    """The best plan that is found from the active one, if it costs hardly more than the best of all."""
    now = price(problem, active.paths, active.layouts)
    if not allows(problem, now):  # the data grew beyond the storage budget
        return best
    near = improve(problem, seconds, start=now, iterations=ITERATIONS_PER_WANT * len(problem.wants))
    verify(problem, near)
    if near.cost > best.cost * NEARLY:
        return best
    return replace(near, bound=best.bound, seconds=best.seconds + near.seconds)


def _with_kept_paths(queries: Sequence[Query], problem: Problem, active: Plan) -> Solution | None:
    parts = parts_of(queries)
    before = {part.name: part.definition for part in active.parts}
    staying = {part.name: part for part in parts if before.get(part.name) == part.definition}
    changed = len({*before, *(part.name for part in parts)}) - len(staying)
    if 2 * changed > max(len(before), len(parts)):
        return None
    stores: dict[Subquery, Materialized] = {}
    if active.solution.materialized:
        kept = replace(active.solution, paths=kept_paths(problem, active.solution, staying))
        stores = materialized_stores(list(staying.values()), kept)

    def readable(graph: QueryGraph, store: Subquery) -> bool:
        """Whether a store holds all that a new query needs: if not, its rows would have to be rebuilt."""
        part = next(part for part in parts if part.name == graph.name)
        return stores[store].serves(part)

    return extended(problem, active.solution, staying, readable)


def window_seconds(queries: Iterable[Query]) -> dict[str, float]:
    """For each stream its longest bounded window, by which a rate becomes a size: that of joins, if it is joined."""
    joined: dict[str, float] = {}
    others: dict[str, float] = {}
    for query in queries:
        windows = [(alias.stream, alias.window) for alias in query.join.aliases] if query.join else []
        for stream, window in windows:
            if window is not None:
                joined[stream] = max(joined.get(stream, 0.0), window / 1e6)
        for stream in query.streams if query.is_windowed else ():
            others[stream] = max(others.get(stream, 0.0), query.grid.range / 1e6)
    return {**others, **joined}
