"""The program of the CLASH paper as printed: Algorithms 1 and 2, one variable for each probe order.

  x[σ]  1 if probe order σ is used. σ is a start and stores with the attribute that each is partitioned by.
  y[ρ]  1 if step ρ is paid for. A step is a prefix of a probe order, partitionings included.

  minimize  Σ StepCost(ρ) · y[ρ]                                        StepCost as in Eq. 1
  (a)  Σ x[σ] over the probe orders of a query and a start = 1
  (b)  -x[σ] + Σ x[σ'] ≥ 0, for each materialized store of σ and each of its relations as the start, over its orders σ'
  (c)  -PCost(σ) · x[σ] + Σ StepCost(ρ) · y[ρ] over the steps of σ ≥ 0

In (b) the paper's k_j is "the number of probe orders required" for a start; we take it to be 1. Nothing in the program
keeps a store to one partitioning, and neither further copies nor materialized results have a price: a plan found here
is priced anew, with layouts chosen for its paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter

from watersmeet.errors import ModelError
from watersmeet.optimize.exact.solver import Model, solve_highs
from watersmeet.optimize.heuristic.draft_plan import Draft
from watersmeet.optimize.heuristic.numbered_problem import Space
from watersmeet.optimize.joingraph import Attribute, QueryGraph, Subquery, links_between
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, price

MOST_ORDERS = 300_000

Stop = tuple[Subquery, Attribute | None]  # a store and what it is partitioned by
Step = tuple[str, tuple[Stop, ...]]  # a start and the stores up to this one


@dataclass(frozen=True)
class Order:
    """A probe order with partitionings, and the cost of each of its steps."""

    want: Want
    stops: tuple[Stop, ...]
    costs: tuple[float, ...]

    @property
    def steps(self) -> Iterator[Step]:
        return ((self.want[0], self.stops[:count]) for count in range(1, len(self.stops) + 1))


def candidates(query: QueryGraph, start: str, materialize: bool = True) -> list[Path]:
    """Algorithm 1: all ways to join the query from a start, store by store, without cross products."""
    stores = [sub for sub in query.connected if len(sub) < len(query.relations) and (materialize or sub.is_stream)]

    def construct(joined: frozenset[str]) -> list[Path]:
        if len(joined) == len(query.relations):
            return [()]
        near = query.reachable(joined)
        return [
            (store, *rest)
            for store in stores
            if store.relations & near and not store.relations & joined
            for rest in construct(joined | store.relations)
        ]

    return construct(frozenset((start,)))


def partitioned(problem: Problem, query: QueryGraph, want: Want, path: Path) -> list[Order]:
    """A probe order under all partitionings of its stores; also those that help only other queries."""
    choices = [problem.layout_candidates(store) if problem.has_layouts else (None,) for store in path]
    orders = []
    for chosen in product(*choices):
        joined = query.within(frozenset((want[0],)))
        costs = []
        for store, layout in zip(path, chosen, strict=True):
            union = query.within(joined.relations | store.relations)
            known = list(links_between(union.links, joined.relations, store.relations))
            step = problem.step((want[0], joined), store, union, known)
            copies = problem.copies(store, known, () if layout is None else (layout,))
            costs.append(step.probing * (copies if step.equality else 1))
            joined = union
        orders.append(Order(want, tuple(zip(path, chosen, strict=True)), tuple(costs)))
    return orders


class PaperProgram:
    def __init__(self, problem: Problem) -> None:
        self.model = Model()
        self.orders: list[Order] = []
        self.x: dict[Want, list[int]] = {}  # number of the order = number of its variable in `_x`
        self._x: list[int] = []
        self.y: dict[Step, int] = {}
        self.problem = problem
        wants = [(want, problem.host(want[1])) for want in problem.wants if len(want[1]) > 1]
        for want, query in wants:
            self._add(want, query)
        for want, _ in wants:
            self.model.row([(self._x[at], 1.0) for at in self.x[want]], lower=1.0, upper=1.0)  # (a)

    @property
    def variables(self) -> int:
        return len(self.model.objective)

    def _add(self, want: Want, query: QueryGraph) -> None:
        if want in self.x:
            return
        self.x[want] = []
        part = QueryGraph(query.name, tuple(sorted(want[1].relations)), want[1].links)
        for path in candidates(part, want[0], self.problem.materialize):
            for order in partitioned(self.problem, part, want, path):
                self._add_order(order)
            for store in path:
                if not store.is_stream:
                    for start in sorted(store.relations):
                        self._add((start, store), query)
        for at in self.x[want]:  # (b)
            for store, _ in self.orders[at].stops:
                for start in sorted(store.relations) if not store.is_stream else ():
                    makers = [(self._x[maker], 1.0) for maker in self.x[start, store]]
                    self.model.row([(self._x[at], -1.0), *makers], lower=0.0)

    def _add_order(self, order: Order) -> None:
        if len(self.orders) >= MOST_ORDERS:
            raise ModelError(
                f"the paper's program would have more than {MOST_ORDERS} probe orders", hint="use the searcher improve"
            )
        self.x[order.want].append(len(self.orders))
        self.orders.append(order)
        self._x.append(self.model.variable(integer=True))
        paid = []
        for step, cost in zip(order.steps, order.costs, strict=True):
            if step not in self.y:
                self.y[step] = self.model.variable(cost, integer=True)
            paid.append((self.y[step], cost))
        self.model.row([(self._x[-1], -sum(order.costs)), *paid], lower=0.0)  # (c)

    def chosen(self, values: list[float]) -> dict[Want, Order]:
        """The orders of the queries, and of what their materialized stores need."""
        found: dict[Want, Order] = {}
        pending = [want for want in self.problem.wants if len(want[1]) > 1]
        while pending:
            want = pending.pop()
            if want not in found:
                best = max(self.x[want], key=lambda at: values[self._x[at]])
                found[want] = self.orders[best]
                pending += [
                    (start, store) for store, _ in found[want].stops if not store.is_stream for start in store.relations
                ]
        return found


@dataclass(frozen=True)
class PaperResult:
    solution: Solution  # priced like all others
    objective: float  # what the paper's program says that it costs
    orders: int
    variables: int
    optimal: bool


def solve_paper(problem: Problem, time_limit: float) -> PaperResult:
    started = perf_counter()
    program = PaperProgram(problem)
    if not program.x:  # nothing is joined: a program without variables has no solver's answer
        return PaperResult(price(problem, dict.fromkeys(problem.wants, ()), {}, searcher="paper"), 0.0, 0, 0, True)
    answer = solve_highs(program.model, time_limit - (perf_counter() - started))
    if answer.values is None:
        raise ModelError(
            f"the paper's program found no plan within {time_limit:g} s", hint="raise time_limit, or use improve"
        )
    chosen = program.chosen(answer.values)
    draft = Draft(Space(problem), stores=True)
    space = draft.space
    paths = {
        space.goal(want): space.read(want, tuple(store for store, _ in order.stops)) for want, order in chosen.items()
    }
    draft.load(paths, {})
    for store in [*draft.streams, *sorted(draft.users)]:
        draft.choose_layouts(store)
    if not draft.fits:
        raise ModelError(
            f"the paper's plan stores {draft.storage:g} tuples, the storage budget is {draft.budget:g}",
            hint="raise storage_budget, or use the searcher improve",
        )
    solution = draft.solution("paper", perf_counter() - started)
    return PaperResult(solution, answer.objective, len(program.orders), program.variables, answer.optimal)


def paper(problem: Problem, time_limit: float = 60.0) -> Solution:
    return solve_paper(problem, time_limit).solution
