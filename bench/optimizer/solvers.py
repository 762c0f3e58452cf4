"""`python -m bench.optimizer.solvers`: the exact searcher with each solver on the random problems of the CLASH paper.

One thread, layouts and materialized stores free to choose and paid for. Each solver runs in processes of its own, as
HiGHS and OR-Tools cannot be loaded into one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import partial
from typing import Annotated, Any

import typer

from bench.__main__ import report
from bench.optimizer.other_solvers import SOLVERS
from tests.support.optimizer_problems import link, paper_problem
from watersmeet.optimize.exact.search import exact
from watersmeet.optimize.exact.solver import Solver, solve_highs
from watersmeet.optimize.heuristic.greedy import fast
from watersmeet.optimize.joingraph import QueryGraph
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import Statistics

SIZES = [(10, 100, 3), (100, 100, 3), (100, 10, 4), (100, 30, 4), (100, 30, 5)]  # relations, queries, relations of each
# The exact searcher makes the program tighter for HiGHS only, so it is also measured as it is for the others.
CONTENDERS: dict[str, Solver] = {**SOLVERS, "highs, no tables": partial(solve_highs)}
KINDS = ("paired", "free")


def free_problem(relations: int, queries: int, size: int, *, seed: int) -> Problem:
    """Every attribute may be compared with every other: fewer common joins, and more layouts to choose from."""
    chance = random.Random(seed)
    found: dict[Any, QueryGraph] = {}
    while len(found) < queries:
        chosen = [f"r{number:03}" for number in chance.sample(range(relations), size)]
        pairs = [(chosen[place], chance.choice(chosen[:place])) for place in range(1, size)]
        links = [link(f"{one}.{chance.choice('abc')}", f"{other}.{chance.choice('abc')}") for one, other in pairs]
        query = QueryGraph(f"q{len(found)}", tuple(chosen), frozenset(links))
        found.setdefault(query.whole, query)
    statistics = Statistics({f"r{number:03}": 100.0 for number in range(relations)})
    return Problem(tuple(found.values()), statistics, partitions=4)


def problem_of(kind: str, sizes: tuple[int, int, int], seed: int) -> Problem:
    return paper_problem(*sizes, seed=seed) if kind == "paired" else free_problem(*sizes, seed=seed)


def main(
    seconds: Annotated[float, typer.Option(help="time limit for each problem")] = 10.0,
    seeds: Annotated[int, typer.Option(help="problems of each size")] = 2,
    solvers: Annotated[str, typer.Option(help="names, with semicolons")] = ";".join(CONTENDERS),
    one: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Prints cost, proven gap and time of the exact searcher for each solver."""
    if one:
        _measure(*json.loads(one))
        return
    rows, figures = [], []
    for kind in KINDS:
        for sizes in SIZES:
            for seed in range(1, seeds + 1):
                for name in solvers.split(";"):
                    given = json.dumps([name, kind, sizes, seed, seconds])
                    run = subprocess.run(
                        [sys.executable, "-m", __spec__.name, "--one", given],
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    if run.returncode:
                        raise SystemExit(run.stderr)
                    figure = json.loads(run.stdout)
                    figures.append(figure)
                    rows.append([kind, " × ".join(map(str, sizes)), str(seed), name, *_shown(figure)])
                    print(*rows[-1], sep=" | ", flush=True)
    columns = ["joins", "relations × queries × size", "seed", "solver", "greedy", "cost", "gap", "seconds"]
    report("optimizer-solvers", f"exact, {seconds:g} s each, one thread", columns, rows, {"figures": figures})


def _shown(figure: dict[str, float]) -> list[str]:
    gap = 100 * (1 - figure["bound"] / figure["cost"])
    return [f"{figure['start']:.0f}", f"{figure['cost']:.0f}", f"{gap:.1f} %", f"{figure['seconds']:.2f}"]


def _measure(name: str, kind: str, sizes: list[int], seed: int, seconds: float) -> None:
    relations, queries, size = sizes
    problem = problem_of(kind, (relations, queries, size), seed)
    start = fast(problem)
    plan = exact(problem, time_limit=seconds, start=start, solver=CONTENDERS[name])
    facts = {"cost": plan.cost, "bound": plan.bound, "seconds": plan.seconds, "start": start.cost}
    print(json.dumps({"solver": name, "kind": kind, "sizes": sizes, "seed": seed, **facts}))


if __name__ == "__main__":
    typer.run(main)
