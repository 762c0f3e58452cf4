"""`python -m bench.optimizer`: the optimizer's experiments of the CLASH paper, Fig. 9a to 9f.

Relations with three attributes, equal rates, selectivity 1/rate; queries drawn at random, duplicates left out.
  a, c   probe cost with and without sharing: one place, streams only, as the paper's example counts it
  b, d   the problem's size: probe orders and variables of the paper's program, with partitionings (P = 4)
  e, f   time to the plan, by number and by size of the queries, with partitionings and materialized stores (P = 4);
         the costs of all searchers, that of the paper's program too, are those of `price`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from math import isnan
from statistics import mean
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.charts import Line, Panel, panels
from bench.optimizer.clash_paper import PaperProgram, solve_paper
from bench.report import write_json, write_picture
from tests.support.optimizer_problems import paper_problem
from watersmeet.errors import ModelError
from watersmeet.optimize.exact.search import exact
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.heuristic.greedy import fast
from watersmeet.optimize.heuristic.individual import individual_cost
from watersmeet.optimize.problem import Problem

SOLVER = find_spec("highspy") is not None


@dataclass(frozen=True)
class Scale:
    counts: Sequence[int]
    seeds: int
    seconds: float  # for each searcher and problem
    sizes: Sequence[int]
    few: Sequence[int]  # numbers of queries for Fig. 9f


FULL = Scale((10, 25, 50, 75, 100), 2, 4.0, (3, 4, 5), (10, 20, 30))
SHORT = Scale((10, 50, 100), 1, 1.5, (3, 4, 5), (10, 30))


def figure(value: float) -> str:
    if isnan(value):  # not a number: nothing was found in time, or there is no solver
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


class Figures:
    def __init__(self) -> None:
        self.data: dict[str, Any] = {}

    def show(
        self,
        name: str,
        title: str,
        columns: Sequence[str],
        rows: list[list[float]],
        across: str,
        up: str,
        lines: dict[str, Line],
    ) -> None:
        table = Table(*columns, title=f"Fig. {name}: {title}")
        for row in rows:
            table.add_row(*map(figure, row))
        Console().print(table)
        self.data[name] = {
            "title": title,
            "columns": list(columns),
            "rows": [[None if isnan(value) else value for value in row] for row in rows],
        }
        write_picture(f"optimizer-{name}", panels(f"Fig. {name}", [Panel(title, across, up, lines)]))


def averaged(scale: Scale, count: int, size: int, relations: int, measure: Callable[[Problem], Sequence[float]],
             **settings: Any) -> list[float]:  # fmt: skip
    found = [
        measure(paper_problem(relations, count, size, seed=seed, attempts=count, **settings))
        for seed in range(scale.seeds)
    ]
    return [mean(values) for values in zip(*found, strict=True)]


def sharing(figures: Figures, scale: Scale, name: str, relations: int) -> None:
    def costs(problem: Problem) -> tuple[float, ...]:
        alone = individual_cost(problem)
        greedy = fast(problem)
        best = exact(problem, time_limit=scale.seconds, start=greedy) if SOLVER else improve(problem, scale.seconds)
        return len(problem.queries), alone, greedy.cost, best.cost, 100 * (1 - best.cost / alone)

    rows = [
        [float(count), *averaged(scale, count, 3, relations, costs, partitions=1, materialize=False)]
        for count in scale.counts
    ]
    figures.show(
        name,
        f"probe cost, {relations} relations, queries of size 3",
        ["queries", "different", "alone", "greedy", "shared", "saved %"],
        rows,
        "queries",
        "probed tuples",
        {"each alone": [(row[0], row[2]) for row in rows], "shared": [(row[0], row[4]) for row in rows]},
    )


def sizes(figures: Figures, scale: Scale, name: str, relations: int) -> None:
    def count_variables(problem: Problem) -> tuple[float, ...]:
        program = PaperProgram(problem)
        return len(problem.queries), len(program.orders), program.variables

    rows = [[float(count), *averaged(scale, count, 3, relations, count_variables)] for count in scale.counts]
    figures.show(
        name,
        f"size of the paper's program, {relations} relations, queries of size 3",
        ["queries", "different", "probe orders", "variables"],
        rows,
        "queries",
        "number",
        {"probe orders": [(row[0], row[2]) for row in rows], "variables": [(row[0], row[3]) for row in rows]},
    )


def times(scale: Scale, count: int, size: int) -> list[float]:
    """Milliseconds and costs: greedy, improve, exact, and the paper's program priced like the others."""

    def measure(problem: Problem) -> tuple[float, ...]:
        began = perf_counter()
        greedy = fast(problem)
        first = perf_counter() - began
        better = improve(problem, scale.seconds, start=greedy)
        nothing = float("nan")
        proven_time = proven = bound = paper_time = paper_cost = nothing
        if SOLVER:
            began = perf_counter()
            solved = exact(problem, time_limit=scale.seconds, start=better)
            proven_time, proven, bound = perf_counter() - began, solved.cost, solved.bound
            began = perf_counter()
            with suppress(ModelError):  # no plan in time, or too many probe orders
                paper_cost = solve_paper(problem, scale.seconds).solution.cost
            paper_time = perf_counter() - began
        return 1e3 * first, greedy.cost, better.cost, 1e3 * proven_time, proven, bound, 1e3 * paper_time, paper_cost

    return averaged(scale, count, size, 100, measure)


TIMES = ["greedy ms", "greedy", "improve", "exact ms", "exact", "bound", "paper ms", "paper"]


def main(short: Annotated[bool, typer.Option(help="fewer problems, less time: below a minute")] = False) -> None:
    scale = SHORT if short else FULL
    figures = Figures()
    sharing(figures, scale, "9a", 10)
    sizes(figures, scale, "9b", 10)
    sharing(figures, scale, "9c", 100)
    sizes(figures, scale, "9d", 100)
    rows = [[float(count), *times(scale, count, 3)] for count in (scale.counts[0], scale.counts[-1])]
    figures.show(
        "9e",
        f"time by number of queries, 100 relations, size 3, at most {scale.seconds:g} s",
        ["queries", *TIMES],
        rows,
        "queries",
        "ms",
        {"greedy": [(row[0], row[1]) for row in rows], "exact": [(row[0], row[4]) for row in rows]},
    )
    rows = [[float(count), float(size), *times(scale, count, size)] for count in scale.few for size in scale.sizes]
    figures.show(
        "9f",
        f"time by size of queries, 100 relations, at most {scale.seconds:g} s",
        ["queries", "size", *TIMES],
        rows,
        "relations in a query",
        "ms",
        {f"{count} queries, greedy": [(row[1], row[2]) for row in rows if row[0] == count] for count in scale.few},
    )
    write_json("optimizer", {"figures": figures.data})


if __name__ == "__main__":
    typer.run(main)
