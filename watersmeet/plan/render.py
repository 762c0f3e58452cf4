"""A plan as one plain value, made once and then shown as text, JSON or a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from watersmeet.home.counters import Counters
from watersmeet.model import Query
from watersmeet.optimize.joingraph import (
    Link,
    Subquery,
    links_between,
    store_of,
)
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Move, PricedMove, Solution, moves_of, priced
from watersmeet.plan.assumed import Assumed, assumed_by, is_assumed
from watersmeet.plan.estimate import tick_estimate
from watersmeet.plan.parts import parts_of
from watersmeet.plan.render_leaves import RenderedCheck, rendered_checks
from watersmeet.plan.render_links import attribute_text, link_text, looked_up_by
from watersmeet.plan.ruleset import Ruleset, Step
from watersmeet.plan.sharing import Sharing, alone
from watersmeet.plan.shown_windows import Shown, ShownSlices, ShownWindows, shown_slices, shown_windows

SECONDS, TUPLES = "seconds", "tuples"  # units of costs


@dataclass(frozen=True)
class RenderedStore:
    name: str
    materialized: bool
    size: float  # estimated tuples
    layouts: tuple[str, ...]
    serves: tuple[str, ...]
    assumed: bool = False  # the size is


@dataclass(frozen=True)
class RenderedStart:
    """Rows of a relation as they arrive: the root of a probe tree."""

    name: str
    size: float  # estimated tuples in its window
    assumed: bool
    ends: tuple[str, ...]  # queries without a join


@dataclass(frozen=True)
class RenderedStep:
    number: int
    parent: int | None
    start: str
    joined: str  # what the partial results cover before the step
    store: str
    on: tuple[str, ...]
    by: str  # hash, range or scan: how the rows are found
    copies: int  # partitions that each partial result is sent to
    cost: float  # in the unit of the plan
    tuples: float  # that are sent to its partitions, estimated
    serves: tuple[str, ...]  # queries, and materialized stores
    ends: tuple[str, ...]  # those that are complete after this step
    assumed: bool = False  # its cost and tuples are
    measured_in: int | None = None
    measured_out: int | None = None
    measured_seconds: float | None = None  # of CPU time,
    estimated_seconds: float | None = None  # and what was expected for as many partial results


@dataclass(frozen=True)
class RenderedPlan:
    """Costs are CPU seconds of a tick, or tuples sent where they are those of the papers."""

    searcher: str
    partitions: int
    unit: str  # seconds or tuples
    probe_cost: float
    shipping: float
    storage_cost: float
    cost: float
    bound: float
    individual_cost: float
    optimal: bool
    seconds: float
    stores: tuple[RenderedStore, ...]
    steps: tuple[RenderedStep, ...]
    over_budget: float  # tuples by which the streams alone exceed the storage budget; 0: they do not
    tuples: float  # that are sent to probes: in a tick, or while the windows are renewed once
    phases: int
    ticks: float  # in which the windows are renewed once
    tick_seconds: float  # from one tick to the next; 0: unknown
    estimate: dict[str, float]  # CPU seconds of a tick, by what is done
    by_spark: tuple[tuple[str, str], ...] = ()  # streams, and what Spark computes of their rows
    checks: tuple[RenderedCheck, ...] = ()  # of queries with leaves
    windows: tuple[ShownWindows, ...] = ()  # windowed queries
    slices: tuple[ShownSlices, ...] = ()
    starts: tuple[RenderedStart, ...] = ()
    sharing: Sharing = field(default_factory=Sharing)
    assumed: Assumed = field(default_factory=Assumed)
    unpriced: tuple[str, ...] = ()  # queries whose windows are no part of the costs: their price is not estimated yet

    def amount(self, cost: float) -> str:
        """A cost as people read it."""
        return f"{cost:,.0f}" if self.unit == TUPLES else seconds_text(cost)

    @property
    def proof(self) -> str:
        """What is known of the cost of better plans."""
        if self.optimal:
            return f"proven optimal{' for what is assumed' if self.assumed.text else ''}"
        return f"no plan costs less than {self.amount(self.bound)}" if self.bound else "no bound known"

    @property
    def cost_text(self) -> str:
        """The cost with its unit, or nothing where no query has a price."""
        if not self.starts:
            return ""
        unit = "tuples sent" if self.unit == TUPLES else "of CPU time a tick"
        return f"{self.amount(self.cost)} {unit}"

    @property
    def saving(self) -> str:
        """What sharing saves, in words."""
        if not self.steps:
            return ""
        saved = self.individual_cost - self.cost
        share = f"{100 * saved / self.individual_cost:.0f} % of the cost of the joins" if saved > 0 else "nothing"
        alone = f"every query alone {self.amount(self.individual_cost)}"
        return f"sharing saves {share}: {self.cost_text}, {alone}{' (assumed)' if self.assumed.text else ''}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def render(
    problem: Problem,
    solution: Solution,
    individual_cost: float,
    over_budget: float = 0.0,
    rules: Ruleset | None = None,
    measured: Counters | None = None,
    queries: Sequence[Query] = (),
) -> RenderedPlan:
    serving, measured = _serving(problem, solution), measured or Counters()
    steps: dict[Move, RenderedStep] = {}
    moves, unit = priced(problem, solution.paths, solution.layouts), _unit(problem)
    for want in sorted(solution.paths, key=lambda want: (want[0], want[1].sort_key)):
        above: int | None = None
        path = solution.paths[want]
        for number, move in enumerate(moves_of(want, path, problem.host(want[1]))):
            if move not in steps:
                step = _find(rules, want[0], path[: number + 1]) if rules else None
                found = _step(problem, solution, move, moves[move], len(steps) + 1, above, serving)
                steps[move] = _with_measured(problem, found, moves[move], step, measured)
            above = steps[move].number
    checks = rendered_checks(problem, queries, rules, measured, _shown)
    stores = _stores(problem, solution, steps, checks)
    windows, slices = (shown_windows(rules), shown_slices(rules)) if rules else ((), ())
    return RenderedPlan(
        solution.searcher,
        problem.partitions,
        TUPLES if problem.weights.once else SECONDS,
        solution.probe_cost * unit,
        solution.shipping * unit,
        solution.storage,
        solution.cost * unit,
        solution.bound * unit,
        individual_cost * unit,
        solution.optimal,
        solution.seconds,
        tuple(stores),
        tuple(steps.values()),
        over_budget,
        solution.tuples * (1.0 if problem.weights.once else 1 / problem.ticks),
        solution.phases,
        problem.ticks,
        problem.statistics.seconds,
        tick_estimate(problem, solution, queries, rules),
        tuple(
            (rule.name, text)
            for rule in (rules.by_spark if rules else ())
            for text in sorted(column.shown for column in rule.computed)
        ),
        checks,
        windows,
        slices,
        tuple(_starts(problem, serving)),
        _sharing(problem, queries, steps.values(), stores, (windows, slices)),
        assumed_by(problem, link_text),
        tuple(window.name for window in windows),
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
        alone([parts.get(name, name) for name in one.serves] for one in shown) for shown in (steps, stores, slices)
    )
    several = sum(number > 1 for number in of_steps)
    counts = (number for each in (of_stores, of_slices) for number in (len(each), sum(each)))
    return Sharing(len(names), len(streams), len(of_steps), sum(of_steps), several, *counts)


def _starts(problem: Problem, serving: dict[Want, tuple[str, ...]]) -> Iterator[RenderedStart]:
    for relation in sorted(problem.relations):
        alone = Subquery(frozenset((relation,)), frozenset())
        size, ends = problem.size(store_of(alone)), serving.get((relation, alone), ())
        yield RenderedStart(relation, size, is_assumed(problem, alone), ends)


def _shown(links: Sequence[Link]) -> tuple[tuple[str, ...], str]:
    return tuple(sorted(map(link_text, links))), looked_up_by(links)


def _unit(problem: Problem) -> float:
    """By which a cost becomes one in the unit of the plan."""
    return 1.0 if problem.weights.once else 1e-6 / problem.ticks


def seconds_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _serving(problem: Problem, solution: Solution) -> dict[Want, tuple[str, ...]]:
    """Whom a wanted node is for."""
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
    number: int,
    parent: int | None,
    serving: dict[Want, tuple[str, ...]],
) -> RenderedStep:
    links = list(links_between(move.joined.links, move.node[1].relations, move.store.relations))
    users = {
        name: None
        for want, path in solution.paths.items()
        if want[0] == move.node[0] and move in moves_of(want, path, problem.host(want[1]))
        for name in serving.get(want, ())
    }
    return RenderedStep(
        number,
        parent,
        move.node[0],
        str(move.node[1]),
        str(move.store),
        tuple(sorted(link_text(link) for link in links)),
        looked_up_by(links),
        priced.copies,
        priced.cost * _unit(problem),
        priced.flow * priced.copies / (1.0 if problem.weights.once else problem.ticks),
        tuple(users),
        serving.get((move.node[0], move.joined), ()),
        is_assumed(problem, move.joined, users),
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
    rule = rules.store(name)
    if store.is_stream:
        return not rule.is_materialized and name == str(store_of(store))
    return {relation for relation, _ in rule.members} == store.relations


def _stores(
    problem: Problem, solution: Solution, steps: Mapping[Move, RenderedStep], checks: Sequence[RenderedCheck]
) -> list[RenderedStore]:
    streams = {store_of(query.within(frozenset((r,)))) for query in problem.queries for r in query.relations}
    leaves = {Subquery(frozenset((check.leaf,)), frozenset()) for check in checks}
    streams |= leaves
    found = []
    for store in sorted(streams | set(solution.materialized), key=lambda store: store.sort_key):
        users: dict[str, None] = {}
        for move, step in steps.items():
            if store_of(move.store) == store:
                users |= dict.fromkeys(step.serves)
        if store in leaves:
            users |= dict.fromkeys(name for check in checks if check.leaf == str(store) for name in check.serves)
        layouts = tuple(attribute_text(layout) for layout in solution.layouts.get(store, ()))
        assumed = is_assumed(problem, store)
        found.append(
            RenderedStore(str(store), not store.is_stream, problem.size(store), layouts, tuple(users), assumed)
        )
    return found
