"""`python -m bench.optimizer.first_plan`: CPU seconds of the plan that a start waits for, by the shape of the query.

One query over streams that are all alike, without statistics: the plan that is made at once, without a search.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from time import process_time

from bench.__main__ import report
from watersmeet.options import Options
from watersmeet.pipeline import Pipeline
from watersmeet.plan.planner import AT_ONCE, make_plan

Link = tuple[int, int, int]  # two streams, and the key that they share

SHAPES: dict[str, Callable[[int], list[Link]]] = {
    "star": lambda size: [(0, other, other) for other in range(1, size)],
    "chain": lambda size: [(one, one + 1, one) for one in range(size - 1)],
    "clique": lambda size: [(*pair, 0) for pair in itertools.combinations(range(size), 2)],
}
QUERIES = [("star", 8), ("star", 12), ("star", 16), ("chain", 8), ("chain", 16), ("clique", 8), ("clique", 16)]
PARTITIONS = (1, 3)


def script(shape: str, size: int) -> str:
    columns = ", ".join(f"k{at} BIGINT" for at in range(size))
    streams = (
        f"CREATE STREAM r{at} (ts TIMESTAMP, {columns}) TIMESTAMP BY ts FROM parquet 'in/r{at}';\n"
        for at in range(size)
    )
    links = " AND ".join(f"r{one}.k{key} = r{other}.k{key}" for one, other, key in SHAPES[shape](size))
    members = ", ".join(f"r{at} [RANGE 10 SECONDS]" for at in range(size))
    return f"{''.join(streams)}CREATE QUERY q AS SELECT r0.ts FROM {members} WHERE {links};\n"


def seconds(pipeline: Pipeline, partitions: int) -> float:
    options = replace(Options(), executor="local", partitions=partitions)
    began = process_time()
    make_plan(AT_ONCE, list(pipeline.streams.values()), list(pipeline.queries.values()), options)
    return process_time() - began


def main() -> None:
    seconds(Pipeline.read(script("chain", 3)), 1)  # imports and caches
    rows, figures = [], []
    for shape, size in QUERIES:
        pipeline = Pipeline.read(script(shape, size))
        taken = [seconds(pipeline, partitions) for partitions in PARTITIONS]
        rows.append([f"{shape} {size}", *(f"{one:.1f}" for one in taken)])
        figures.append({"shape": shape, "size": size, "seconds": taken})
    columns = ["query", *(f"P = {partitions}" for partitions in PARTITIONS)]
    report("optimizer-first-plan", "CPU seconds of the first plan", columns, rows, {"figures": figures})


if __name__ == "__main__":
    main()
