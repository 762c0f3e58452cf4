"""What a tick is estimated to take: the cost of the plan, and what all plans have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet.model import Query
from watersmeet.optimize.joingraph import stream_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.plan.parts import JoinPart, parts_of
from watersmeet.plan.render_leaves import check_cost
from watersmeet.plan.ruleset import Ruleset

_BYTES = 8.0  # of a column of fixed width,
_LONGER = 24.0  # and of any other


def tick_estimate(
    problem: Problem, solution: Solution, queries: Sequence[Query], rules: Ruleset | None = None
) -> dict[str, float]:
    """CPU seconds of one tick by what is done; nothing is known where costs are those of the papers."""
    weights, ticks = problem.weights, problem.ticks
    if weights.once:
        return {}
    streams = {stream_of(relation) for relation in problem.relations}
    arrived = {
        stream: problem.statistics.size(stream) * problem.statistics.turnover(stream, ticks) for stream in streams
    }
    bits = {rule.name: sum(len(block) for block in rule.blocks) for rule in rules.stores} if rules else {}
    gathering = sum(rows * (weights.row + bits.get(name, 0) * weights.filter_bit) for name, rows in arrived.items())
    found = {
        "tick": weights.tick * ticks,
        "gather": gathering,
        "steps": solution.probe_cost + solution.repeated,
        "stores, indexes, phases": solution.shipping,
        "results": sum(_results(problem, part) for part in parts_of(queries)),
    }
    checked = sum(_checks(problem, part) for part in parts_of(queries))
    if checked:
        found["leaf checks"] = checked
    return {part: cost / ticks / 1e6 for part, cost in found.items()}


def _checks(problem: Problem, part: JoinPart) -> float:
    if part.leaf is None:
        return 0.0
    return check_cost(problem, next(graph for graph in problem.queries if graph.name == part.name), part.leaf)


def _results(problem: Problem, part: JoinPart) -> float:
    if part.query.sink.format == "count" and not part.query.is_windowed:
        return 0.0
    weights = problem.weights
    graph = next(graph for graph in problem.queries if graph.name == part.name)
    rows = sum(problem.tuples((start, graph.whole)) for start in graph.relations) * problem.wanted.alone(part.name)
    row = weights.result_row + weights.result_byte * _width(output.type for output in part.join.outputs)
    return rows * row + min(rows, problem.ticks) * weights.result_file


def _width(types: Iterable[str]) -> float:
    return sum(_LONGER if kind in ("string", "binary") or kind.startswith("decimal") else _BYTES for kind in types)
