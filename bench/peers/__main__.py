"""`python -m bench.peers SYSTEM WORKLOAD.json`: run a system of this environment; the last line is its outcome."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.workloads.model import Outcome, Workload


def run(system: str, workload: Workload) -> Outcome:
    skip = min(workload.warm_up, workload.ticks - 1)
    if system == "duckdb":
        from bench.peers import duck

        return duck.run(workload)
    if system == "duckdb-loop":
        from bench.peers import duck_loop

        return duck_loop.run(workload, skip)
    if system == "spark":
        from bench.peers import spark

        return spark.run(workload, skip)
    from bench.peers import ours

    if system == "each":
        return ours.run_each(workload, skip)
    options = ours.OPTIONS[system]
    return ours.run(workload, options, skip)


if __name__ == "__main__":
    print(json.dumps(asdict(run(sys.argv[1], Workload.from_json(Path(sys.argv[2]).read_text())))))
