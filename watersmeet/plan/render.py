"""Renders a plan: makes the plain value that explain shows as text, JSON or a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from watersmeet.home.counters import Counters
from watersmeet.model import Query
from watersmeet.optimize.joingraph import Link, Subquery, links_between, single, store_of
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Move, PricedMove, Solution, moves_of, priced
from watersmeet.plan.assumed import assumed_by, is_assumed
from watersmeet.plan.estimate import tick_estimate
from watersmeet.plan.parts import parts_of
from watersmeet.plan.render_leaves import RenderedCheck, rendered_checks
from watersmeet.plan.render_links import attribute_text, link_text, looked_up_by
from watersmeet.plan.rendered import RenderedPlan, RenderedStart, RenderedStep, RenderedStore, Sharing
from watersmeet.plan.ruleset import Ruleset, Step
from watersmeet.plan.shown_windows import Shown, shown_slices, shown_windows
from watersmeet.plan.units import SECONDS, TUPLES
from watersmeet.windows.costs import WindowCosts


def render(
    problem: Problem,
    solution: Solution,
    individual_cost: float,
    over_budget: float,
    rules: Ruleset,
    measured: Counters,
    queries: Sequence[Query],
    costs: WindowCosts,
    prices: Mapping[str, Mapping[str, float]],
    changing: Mapping[str, int],
) -> RenderedPlan:
    serving = _serving(problem, solution)
    steps: dict[Move, RenderedStep] = {}
    moves, unit = priced(problem, solution.paths, solution.layouts), _unit(problem)
    for want in sorted(solution.paths, key=lambda want: (want[0], want[1].sort_key)):
        above: int | None = None
        path = solution.paths[want]
        for number, move in enumerate(moves_of(want, path, problem.host(want[1]))):
            if move not in steps:
                step = _find(rules, want[0], path[: number + 1])
                found = _step(problem, solution, move, moves[move], serving, number=len(steps) + 1, parent=above)
                steps[move] = _with_measured(problem, found, moves[move], step, measured)
            above = steps[move].number
    checks = rendered_checks(problem, queries, rules, measured, _shown)
    stores = _stores(problem, solution, steps, checks)
    windows, slices = shown_windows(rules, costs, prices, changing), shown_slices(rules, costs)
    return RenderedPlan(
        searcher=solution.searcher,
        partitions=problem.partitions,
        unit=TUPLES if problem.weights.once else SECONDS,
        probe_cost=solution.probe_cost * unit,
        shipping=solution.shipping * unit,
        storage_cost=solution.storage,
        cost=solution.cost * unit,
        bound=solution.bound * unit,
        individual_cost=individual_cost * unit,
        optimal=solution.optimal,
        seconds=solution.seconds,
        stores=tuple(stores),
        steps=tuple(steps.values()),
        over_budget=over_budget,
        tuples=solution.tuples * (1.0 if problem.weights.once else 1 / problem.ticks),
        phases=solution.phases,
        ticks=problem.ticks,
        tick_seconds=problem.statistics.seconds,
        estimate=tick_estimate(problem, solution, queries, rules, costs),
        by_spark=tuple(
            (rule.name, text) for rule in rules.by_spark for text in sorted(column.shown for column in rule.computed)
        ),
        checks=checks,
        windows=windows,
        slices=slices,
        starts=tuple(_starts(problem, serving)),
        sharing=_sharing(problem, queries, steps.values(), stores, (windows, slices)),
        assumed=assumed_by(problem, link_text),
        unpriced=tuple(window.name for window in windows) if problem.weights.once else (),
        window_cost=costs.total / 1e6,
    )


def _sharing(
    problem: Problem,
    queries: Sequence[Query],
    steps: Iterable[RenderedStep],
    stores: Sequence[RenderedStore],
    windowed: Shown,
) -> Sharing:
    windows, slices = windowed
    parts = {part.name: part.query.name for part in parts_of(queries)}  # a query may have several
    names = {*(parts.get(graph.name, graph.name) for graph in problem.queries), *(one.name for one in windows)}
    streams = {
        *(name for one in windows for name in one.streams),
        *(one.name for one in stores if not one.materialized),
    }
    of_steps, of_stores, of_slices = (
        _alone([parts.get(name, name) for name in one.serves] for one in shown) for shown in (steps, stores, slices)
    )
    return Sharing(
        queries=len(names),
        streams=len(streams),
        steps=len(of_steps),
        steps_alone=sum(of_steps),
        shared_steps=sum(number > 1 for number in of_steps),
        stores=len(of_stores),
        stores_alone=sum(of_stores),
        slices=len(of_slices),
        slices_alone=sum(of_slices),
    )


def _alone(serves: Iterable[Iterable[str]]) -> list[int]:
    """For each step or store, how many there would be if each query had its own. A materialized result, which is in
    brackets, is there for the sake of queries that are counted themselves."""
    return [max(1, sum(not name.startswith("[") for name in set(names))) for names in serves]


def _starts(problem: Problem, serving: dict[Want, tuple[str, ...]]) -> Iterator[RenderedStart]:
    for relation in sorted(problem.relations):
        alone = single(relation)
        size, ends = problem.size(store_of(alone)), serving.get((relation, alone), ())
        yield RenderedStart(relation, size, is_assumed(problem, alone), ends)


def _shown(links: Sequence[Link]) -> tuple[tuple[str, ...], str]:
    return tuple(sorted(map(link_text, links))), looked_up_by(links)


def _unit(problem: Problem) -> float:
    """The factor from a cost of the optimizer to one in the unit of the plan."""
    return 1.0 if problem.weights.once else 1e-6 / problem.ticks


def _serving(problem: Problem, solution: Solution) -> dict[Want, tuple[str, ...]]:
    """For each wanted node, the queries and materialized stores that need it."""
    found: dict[Want, dict[str, None]] = {}
    for query in problem.queries:
        for start in query.relations:
            found.setdefault((start, query.whole), {})[query.name] = None
    for store in solution.materialized:
        for start in store.relations:
            found.setdefault((start, store), {})[f"[{store}]"] = None
    return {want: tuple(names) for want, names in found.items()}


def _step(
    problem: Problem,
    solution: Solution,
    move: Move,
    priced: PricedMove,
    serving: dict[Want, tuple[str, ...]],
    number: int,
    parent: int | None,
) -> RenderedStep:
    links = list(links_between(move.joined.links, move.node[1].relations, move.store.relations))
    users = {
        name: None
        for want, path in solution.paths.items()
        if want[0] == move.node[0] and move in moves_of(want, path, problem.host(want[1]))
        for name in serving.get(want, ())
    }
    return RenderedStep(
        number=number,
        parent=parent,
        start=move.node[0],
        joined=str(move.node[1]),
        store=str(move.store),
        on=tuple(sorted(link_text(link) for link in links)),
        by=looked_up_by(links),
        copies=priced.copies,
        cost=priced.cost * _unit(problem),
        tuples=priced.flow * priced.copies / (1.0 if problem.weights.once else problem.ticks),
        serves=tuple(users),
        ends=serving.get((move.node[0], move.joined), ()),
        assumed=is_assumed(problem, move.joined, users),
    )


def _with_measured(
    problem: Problem, shown: RenderedStep, priced: PricedMove, step: Step | None, measured: Counters
) -> RenderedStep:
    if step is None or step.id not in measured.step_in:
        return shown
    came = measured.step_in[step.id]
    shown = replace(shown, measured_in=came, measured_out=measured.step_out[step.id])
    if problem.weights.once or step.id not in measured.step_micros:
        return shown
    expected = priced.cost / max(1e-9, priced.flow * priced.copies) * came / 1e6
    return replace(shown, measured_seconds=measured.step_micros[step.id] / 1e6, estimated_seconds=expected)


def _find(rules: Ruleset, relation: str, path: Path) -> Step | None:
    """The step of the Ruleset that a path arrives at."""
    for start in rules.starts:
        if start.relation != relation or start.phase == 0:
            continue
        below, found = start.steps, None
        for store in path:
            found = next((step for step in below if _is_store(rules, step.store, store)), None)
            below = found.steps if found else ()
        if found is not None:
            return found
    return None


def _is_store(rules: Ruleset, name: str, store: Subquery) -> bool:
    if store.is_stream:
        return name in rules.stream_stores and name == str(store_of(store))
    made = rules.join_stores.get(name)
    return made is not None and {relation for relation, _ in made.members} == store.relations


def _stores(
    problem: Problem, solution: Solution, steps: Mapping[Move, RenderedStep], checks: Sequence[RenderedCheck]
) -> list[RenderedStore]:
    leaves = {single(check.leaf) for check in checks}
    found = []
    for store in sorted({*problem.streams, *leaves, *solution.materialized}, key=lambda store: store.sort_key):
        users: dict[str, None] = {}
        for move, step in steps.items():
            if store_of(move.store) == store:
                users |= dict.fromkeys(step.serves)
        if store in leaves:
            users |= dict.fromkeys(name for check in checks if check.leaf == str(store) for name in check.serves)
        layouts = tuple(attribute_text(layout) for layout in solution.layouts.get(store, ()))
        size, assumed = problem.size(store), is_assumed(problem, store)
        found.append(
            RenderedStore(str(store), not store.is_stream, size, layouts, serves=tuple(users), assumed=assumed)
        )
    return found
