"""How many results a join finds, and how wide they are."""

from __future__ import annotations

from collections.abc import Iterable

from watersmeet.optimize.problem import Problem
from watersmeet.plan.parts import JoinPart

_BYTES = 8.0  # of a column of fixed width,
_LONGER = 24.0  # and of any other


def results_of(problem: Problem, part: JoinPart) -> float:
    """While the windows are renewed once."""
    graph = next(graph for graph in problem.queries if graph.name == part.name)
    return sum(problem.tuples((start, graph.whole)) for start in graph.relations) * problem.wanted.alone(part.name)


def result_width(types: Iterable[str]) -> float:
    """Bytes of a row."""
    return sum(_LONGER if kind in ("string", "binary") or kind.startswith("decimal") else _BYTES for kind in types)
