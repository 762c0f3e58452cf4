"""What the windows of a plan cost in a tick, as its operators say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from watersmeet.model import Query
from watersmeet.optimize.problem import Problem
from watersmeet.plan.parts import JoinPart, parts_of
from watersmeet.plan.ruleset import Ruleset
from watersmeet.windows.costs import TickFacts, WindowCosts
from watersmeet.windows.table import cost_of


def window_costs(problem: Problem, rules: Ruleset, queries: Iterable[Query]) -> WindowCosts:
    """Nothing is known where costs are those of the papers."""
    if problem.weights.once or not rules.windows:
        return WindowCosts()
    joined = {
        part.query.name: results_of(problem, part) / problem.ticks
        for part in parts_of(query for query in queries if query.is_windowed)
    }
    return cost_of(rules.windows, facts_of(problem, rules.partitions, joined))


def facts_of(problem: Problem, partitions: int, joined: Mapping[str, float] | None = None) -> TickFacts:
    return TickFacts(problem.statistics, problem.weights, problem.ticks, partitions, joined or {})


def results_of(problem: Problem, part: JoinPart) -> float:
    """Results of a join while the windows are renewed once."""
    graph = next(graph for graph in problem.queries if graph.name == part.name)
    return sum(problem.tuples((start, graph.whole)) for start in graph.relations) * problem.wanted.alone(part.name)
