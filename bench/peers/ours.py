"""Watersmeet as a person runs it, in four ways to share."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.research import command
from bench.workloads.knowledge import statistics
from bench.workloads.model import Outcome, Query, Workload
from bench.workloads.texts import watersmeet_script
from watersmeet.home import layout
from watersmeet.home.manifest import load_newest

# Plans are compared, so none of them changes while it runs: with a searcher the first one is searched for.
ALONE = {"sharing": "none", "searcher": "individual", "materialize": "off", "adaptive": "off"}
NAIVE = {"searcher": "individual", "adaptive": "off"}
# There is time for that: on a machine that others use, the usual limit would end the search at another plan.
JOINT = {"searcher": "exact", "adaptive": "off", "plan_seconds": "120"}
OPTIONS = {
    "joint": JOINT,
    "naive": NAIVE,
    "alone": ALONE,
    "embedded": {**JOINT, "executor": "local"},
    "partitions": {**JOINT, "partitions": "2"},
    "adaptive": {},
}
STAGES = ("gather", "probe", "commit")


def run(workload: Workload, options: dict[str, str], skip: int) -> Outcome:
    """All queries in one engine."""
    return _run(workload, workload.queries, options, skip)


def run_each(workload: Workload, skip: int) -> Outcome:
    """An engine for each query, one after the other: nothing is shared, not even the state."""
    runs = [_run(workload, (query,), JOINT, skip) for query in workload.queries]
    return Outcome(
        seconds=sum(one.seconds for one in runs),
        spans=[span for one in runs for span in one.spans],
        skipped=skip,
        results={name: count for one in runs for name, count in one.results.items()},
        state_bytes=sum(one.state_bytes or 0 for one in runs),
        parts={stage: sum(one.parts[stage] for one in runs) for stage in runs[0].parts},
    )


def _run(workload: Workload, queries: tuple[Query, ...], options: dict[str, str], skip: int) -> Outcome:
    with tempfile.TemporaryDirectory(dir=Path(workload.folder).parent) as scratch:
        home, pipeline = Path(scratch, "home"), Path(scratch, "pipeline.sql")
        pipeline.write_text(watersmeet_script(workload, queries, sink=workload.sink))
        home.mkdir()
        if not any(query.windowed for query in queries):  # sizes are those of the full history
            known = {"statistics": statistics(replace(workload, queries=queries))}
            (home / layout.STATISTICS).write_text(json.dumps(known))
        options = {**options, "executor": "local"} if workload.embedded else options
        subprocess.run(command(pipeline, home, options), check=True, stdout=sys.stderr)
        ticks = [json.loads(line) for line in (home / layout.TICKS).read_text().splitlines()]
        manifest = load_newest(home)
    counted = ticks[skip:]
    began, ended = ticks[skip - 1]["finished_at"], ticks[-1]["finished_at"]
    parts = {stage: sum(tick[stage] for tick in counted) / len(counted) for stage in STAGES}
    # What is left of a tick: finding files, writing down what the next batch has.
    parts["between ticks"] = (ended - began) / len(counted) - sum(parts.values())
    results = {query.name: manifest.totals.results[query.name] for query in queries}
    state = sum(bucket.bytes for bucket in manifest.buckets)
    return Outcome(
        seconds=ended - began, spans=[(began, ended)], skipped=skip, results=results, state_bytes=state, parts=parts
    )
