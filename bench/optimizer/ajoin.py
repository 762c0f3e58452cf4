"""`python -m bench.optimizer.ajoin`: the choices of the AJoin paper's optimizer beside ours.

reordering   Fig. 7b against our searchers on the random problems of the CLASH paper, by our costs (P = 4)
grouping     Fig. 7a with Eq. 2 against our groups, one group, and none, on the workload of its Fig. 22a
changes      full plans by the 50 % rule, counted since the last full plan or by batch, against always and never
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from statistics import mean
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

from bench import ajoin
from bench.__main__ import report
from bench.many_queries import shared_selects
from bench.optimizer.ajoin_paper import Eq2, HalfChanged, Side, grouped, reordering
from tests.support.optimizer_problems import paper_problem
from watersmeet.optimize.heuristic.annealing import improve
from watersmeet.optimize.heuristic.greedy import fast
from watersmeet.optimize.heuristic.incremental import extended
from watersmeet.optimize.heuristic.individual import individual
from watersmeet.optimize.operator_trees import left_deep
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.plan.grouping import cluster

SIZES = [(10, 50, 3), (100, 100, 3), (100, 30, 4), (100, 30, 5)]  # relations, queries, relations of each
ROWS = 400  # sampled of each stream
QUERIES = 100


def reorder(seeds: int, seconds: float) -> None:
    searchers: dict[str, Callable[[Problem], Solution]] = {
        "each alone, then merged": individual,
        "left-deep": left_deep,
        "AJoin": reordering,
        "greedy": fast,
        "improve": lambda problem: improve(problem, seconds, start=fast(problem)),
    }
    table, figures = [], []
    for sizes in SIZES:
        problems = [paper_problem(*sizes, seed=seed) for seed in range(seeds)]
        for name, search in searchers.items():
            began = perf_counter()
            plans = [search(problem) for problem in problems]
            taken = (perf_counter() - began) / seeds
            cost, storage = mean(plan.cost for plan in plans), mean(plan.storage for plan in plans)
            figures.append({"sizes": sizes, "searcher": name, "cost": cost, "storage": storage, "seconds": taken})
            table.append([" × ".join(map(str, sizes)), name, f"{cost:,.0f}", f"{storage:,.0f}", f"{1e3 * taken:,.0f}"])
    columns = ["relations × queries × size", "searcher", "cost", "stored tuples", "ms"]
    report("optimizer-ajoin-reordering", "AJoin's reordering (Fig. 7b) and ours", columns, table, {"figures": figures})


def sides(texts: list[str], rows: int = ROWS) -> tuple[Side, Side]:
    """Rows of both streams of AJoin's workload, and which query wants which: filters are ranges of x1."""
    found = []
    for seed, stream in enumerate(ajoin.STREAMS):
        rng = np.random.default_rng(seed)
        keys, values = rng.integers(0, ajoin.ATR_MAX // 10, rows), rng.integers(0, ajoin.ATR_MAX, rows)
        wants = np.empty((rows, len(texts)), bool)
        for number, text in enumerate(texts):
            low, high = (int(re.findall(rf"{stream}\.x1 {sign} (\d+)", text)[0]) for sign in (">=", "<"))
            wants[:, number] = (values >= low) & (values < high)
        found.append(Side(keys, wants))
    return found[0], found[1]


def group() -> None:
    table, figures = [], []
    for percent in (1, 5, 20, 50, 80):
        left, right = sides(shared_selects(QUERIES, percent))
        cost, every = Eq2(left, right), list(range(QUERIES))
        stacked = np.concatenate([left.wants, right.wants])
        choices: dict[str, Callable[[], list[list[int]]]] = {
            "none": lambda: [[query] for query in every],  # noqa: B023
            "one group": lambda: [every],  # noqa: B023
            "AJoin": lambda: grouped(cost, every),  # noqa: B023
            "ours": lambda: cluster(stacked, every, []),  # noqa: B023
        }
        for name, choose in choices.items():
            began = perf_counter()
            groups = choose()
            taken = perf_counter() - began
            rows = sum(int(stacked[:, part].any(axis=1).sum()) for part in groups)
            price = cost.of_groups(groups)
            figures.append({"percent": percent, "groups": name, "number": len(groups), "eq2": price, "rows": rows})
            table.append([f"{percent} %", name, str(len(groups)), f"{price:,.0f}", f"{rows:,}", f"{1e3 * taken:,.0f}"])
    columns = ["queries that want a row", "groups", "number", "Eq. 2", "rows in groups", "ms"]
    title = f"grouping {QUERIES} queries of one join (Fig. 7a), {ROWS} sampled rows of each stream"
    report("optimizer-ajoin-grouping", title, columns, table, {"figures": figures})


def change(batches: int, batch: int) -> None:
    """Each batch adds queries and, from the fifth on, deletes as many of the others."""
    rules: dict[str, Callable[[int, int], bool]] = {
        "always": lambda changes, queries: True,
        "50 % since the last full plan": HalfChanged().asks,
        "50 % of a batch": HalfChanged(by_batch=True).asks,
        "never": lambda changes, queries: False,
    }
    costs: dict[str, list[float]] = {name: [] for name in rules}
    seconds = dict.fromkeys(rules, 0.0)
    full = dict.fromkeys(rules, 0)
    whole = paper_problem(20, batches * batch, 4, seed=1, partitions=1)
    chance = random.Random(1)
    plans: dict[str, Solution] = {}
    active: list[str] = []
    waiting = [query.name for query in whole.queries]
    while waiting:
        added = [waiting.pop(0) for _ in range(min(batch, len(waiting)))]
        gone = set(chance.sample(active, len(added))) if len(active) >= 5 * batch else set()
        staying = [name for name in active if name not in gone]
        active = staying + added
        problem = replace(whole, queries=tuple(query for query in whole.queries if query.name in active))
        for name, asks in rules.items():
            began = perf_counter()
            plan = None
            if not asks(len(added) + len(gone), len(active)) and name in plans:
                plan = extended(problem, plans[name], staying, lambda query, store: True)
            full[name] += plan is None
            plans[name] = plan or fast(problem)
            seconds[name] += perf_counter() - began
            costs[name].append(plans[name].cost)
    table = [
        [
            name,
            str(full[name]),
            f"{mean(one / best for one, best in zip(costs[name], costs['always'], strict=True)):.3f} ×",
            f"{max(one / best for one, best in zip(costs[name], costs['always'], strict=True)):.3f} ×",
            f"{1e3 * seconds[name]:,.0f}",
        ]
        for name in rules
    ]
    title = f"{len(costs['always'])} batches of {batch} queries of size 4 over 20 relations, full plans by greedy"
    columns = ["full plans", "number", "cost, mean", "cost, most", "ms in all"]
    report("optimizer-ajoin-changes", title, columns, table, {"costs": costs, "seconds": seconds, "full": full})


def main(
    seeds: Annotated[int, typer.Option(help="problems of each size")] = 2,
    seconds: Annotated[float, typer.Option(help="for improve, of each problem")] = 2.0,
) -> None:
    reorder(seeds, seconds)
    group()
    change(batches=20, batch=5)


if __name__ == "__main__":
    typer.run(main)
