"""What a tick is estimated to take: the cost of the plan, what all plans have in common, and the windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from watersmeet.model import Query
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.plan.parts import JoinPart, parts_of
from watersmeet.plan.render_leaves import check_cost
from watersmeet.plan.ruleset import Ruleset
from watersmeet.windows.costs import TickFacts, WindowCosts, result_width
from watersmeet.windows.table import cost_of


def tick_estimate(
    problem: Problem,
    solution: Solution,
    queries: Sequence[Query],
    rules: Ruleset,
    windows: WindowCosts,
) -> dict[str, float]:
    """CPU seconds of one tick by what is done; nothing is known where costs are those of the papers."""
    weights, ticks = problem.weights, problem.ticks
    if weights.once:
        return {}
    streams = set(map(str, problem.streams))
    streams |= {stream for query in queries if query.is_windowed for stream in query.streams}
    arrived = {stream: problem.statistics.arriving(stream, ticks) * ticks for stream in sorted(streams)}
    bits = {rule.name: sum(len(block) for block in rule.blocks) for rule in rules.probed}
    gathering = sum(rows * (weights.row + bits.get(name, 0) * weights.filter_bit) for name, rows in arrived.items())
    found = {
        "tick": weights.tick * ticks,
        "gather": gathering,
        "steps": solution.probe_cost + solution.repeated,
        "stores, indexes, phases": solution.shipping,
        "results": sum(_results(problem, part) for part in parts_of(queries)),
    }
    leaves = [(problem.graphs[part.name], part.leaf) for part in parts_of(queries) if part.leaf is not None]
    checked = sum(check_cost(problem, graph, leaf) for graph, leaf in leaves)
    if checked:
        found["leaf checks"] = checked
    for part, cost in windows.by_stage.items():
        found[part] = found.get(part, 0.0) + cost * ticks
    return {part: cost / ticks / 1e6 for part, cost in found.items()}


def _results(problem: Problem, part: JoinPart) -> float:
    weights = problem.weights
    rows = results_of(problem, part)
    if part.query.is_windowed:  # they go into slices, which have a price of their own
        return rows * weights.result_row
    if part.query.sink.format == "count":
        return 0.0
    row = weights.result_row + weights.result_byte * result_width(part.join.outputs)
    return rows * row + min(rows, problem.ticks) * weights.result_file


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
    graph = problem.graphs[part.name]
    return sum(problem.tuples((start, graph.whole)) for start in graph.relations) * problem.wanted.alone(part.name)
