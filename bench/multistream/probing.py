"""Fig. 8d to 8f: tuples sent to stores by plan, as the cost model has them and as counted.

The paper's x axis is the capacity of a task: a store has as many tasks as its size needs, so large intermediate
results are spread over more of them. That is computed here with the paper's own formulas at its own size. Engines
have P places, and keep a store in all of them or, if they may choose, in as many as pay; their axis is P.
"""

from __future__ import annotations

from math import ceil

from bench.charts import Line, Panel, panels
from bench.multistream.inputs import PARTNERS, RELATIONS
from bench.multistream.running import Run
from bench.multistream.showing import Bench, show
from bench.optimizer.paper_costs import multistream_order_cost, tree_probe_cost
from watersmeet.optimize.operator_trees import OperatorTree, greedy_order

PAPER_ROWS = 10**6
CAPACITIES = (0.1, 0.2, 0.5, 1.0)  # of a task, in relations
PLANS = ("flat", "left-deep", "optimized")
CHAINS = {"8d": "LLLL", "8e": "MMMM", "8f": "HHHH"}
# Rows of each relation. Five relations with ten partners each give 10,000 results a row.
ROWS = {"LLLL": (4_000, 10_000), "MMMM": (3_000, 8_000), "HHHH": (100, 200)}


def flat_tree(relations: str) -> OperatorTree:
    return OperatorTree(tuple(relations))


def left_deep_tree(relations: str) -> OperatorTree:
    tree = OperatorTree((relations[0], relations[1]))
    for relation in relations[2:]:
        tree = OperatorTree((tree, relation))
    return tree


def paper_cost(tree: OperatorTree, partners: float, capacity: float) -> float:
    """MultiStream's Eq. 4 for a chain of equal relations, with the tasks that a capacity (in relations) needs."""
    order = tree.relations

    def size(some: frozenset[str]) -> float:
        return PAPER_ROWS * partners ** (len(some) - 1)

    def linked(joined: frozenset[str], other: frozenset[str]) -> bool:
        places, others = ([order.index(relation) for relation in some] for some in (joined, other))
        return any(abs(one - two) == 1 for one in places for two in others)

    def operator(one: OperatorTree) -> float:
        inputs = [frozenset((child,) if isinstance(child, str) else child.relations) for child in one.children]
        names = {some: "".join(sorted(some)) for some in inputs}
        sizes = {names[some]: size(some) for some in inputs}
        # Of a chain, inputs that touch have one predicate between them.
        share = {
            frozenset((names[x], names[y])): partners / PAPER_ROWS
            for x in inputs
            for y in inputs
            if linked(x, y) and x != y
        }
        tasks = {some: float(ceil(size(some) / (capacity * PAPER_ROWS))) for some in inputs}
        named = {names[some]: count for some, count in tasks.items()}
        return sum(
            multistream_order_cost(
                [
                    names[some]
                    for some in (start, *greedy_order(start, [o for o in inputs if o != start], size, tasks, linked))
                ],
                sizes,
                share,
                named,
            )
            for start in inputs
        )

    return tree_probe_cost(tree, operator)


def probed(bench: Bench, name: str) -> None:
    letters = CHAINS[name]
    rows_each = ROWS[letters][0 if bench.short else 1]
    workload = bench.inputs.chain(letters, rows_each, ticks=2 if bench.short else 4)
    rows: list[list[str]] = []
    ways = {
        "theta, all partitions": ("theta", "all"),
        "theta, partitions chosen": ("theta", "chosen"),
        "hash": ("hash", "all"),
    }
    if bench.short:
        del ways["hash"]
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {way: {} for way in ways}
    for way, (how, parallelism) in ways.items():
        for plan in PLANS:
            for places in (1, 4) if bench.short else (1, 2, 4):
                if places == 1 and parallelism == "chosen":
                    continue  # there is no choice
                ran = bench.run(Run(workload, plan, how, places, parallelism))
                cells = (f"{ran.expected_probed:,.0f}", f"{ran.probed:,}", f"{len(ran.materialized)}")
                rows.append([f"{way}, P = {places}", plan, *cells])
                lines[way].setdefault(plan, []).append((float(places), float(ran.probed)))
    model: dict[str, Line] = {}
    for plan, tree in (("flat", flat_tree(RELATIONS)), ("left-deep", left_deep_tree(RELATIONS))):
        costs = [paper_cost(tree, PARTNERS[letters[0]], capacity) for capacity in CAPACITIES]
        model[plan] = list(zip(CAPACITIES, costs, strict=True))
        rows += [
            [f"paper's formula, capacity {capacity:.0%}", plan, f"{cost:,.0f}", "", str(len(tree.inner))]
            for capacity, cost in model[plan]
        ]
    title = f"probed tuples, custom-{letters}, {rows_each:,} rows of each of five relations"
    columns = ["where", "plan", "estimated", "counted", "inner results stored"]
    drawn = [Panel(f"paper's formula, {PAPER_ROWS:,} rows", "capacity of a task, relations", "tuples", model)]
    drawn += [
        Panel(f"{way}, {rows_each:,} rows, counted", "partitions", "tuples", one, grouped=True)
        for way, one in lines.items()
    ]
    show(bench, name, title, columns, rows, panels(f"Fig. {name}: probed tuples, custom-{letters}", drawn))
