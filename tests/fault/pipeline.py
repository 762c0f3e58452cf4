"""The engine as a program that can be killed anywhere: `python -m tests.fault.pipeline HOME INPUT --kill POINT:N …`

It processes what INPUT holds and ends, or dies on the way. Points in the driver are put around the product's
functions here, those inside Spark's tasks by `tests.fault.daemon`; the product knows nothing of them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.fault.daemon import LATE_VARIABLE
from tests.fault.strikes import DRIVER_VARIABLE, FOLDER_VARIABLE, Strikes
from tests.fault.workload import make_case
from tests.oracle.plans import plan_by
from watersmeet import Engine, planning
from watersmeet.io.folders import Positions
from watersmeet.model import Sink
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Solution
from watersmeet.runtime import home as home_module
from watersmeet.runtime import spark as spark_module
from watersmeet.runtime.orders import ProbeOrder
from watersmeet.runtime.tick import Tick
from watersmeet.store.manifest import Manifest

TICK_POINTS = (
    "positions.before",  # what the tick will read is not written down
    "tick.begin",  # it is, and nothing else of the tick exists
    "gather.after",  # its buckets do
    "phase.between",  # and buckets of a materialized store that a later phase probes
    "probe.after",  # its results and merged buckets too
    "manifest.draft",  # its manifest is written under a draft's name
    "manifest.replacing",  # the same, in a tick that makes buckets superfluous: they must still be there
    "manifest.linked",  # it is committed, and the draft is still there
    "publish.before",
    "publish.between",  # one result file is visible, others are not
    "discard.before",
    "discard.between",  # some merged or expired buckets are deleted, others are not
    "expire.before",  # the tick in which buckets expire as a whole, before it is committed
    "expire.between",  # and while they are deleted
    "tick.end",  # all is done, but Spark does not know it yet
)
RECOVERY_POINTS = ("recover.publish", "recover.clear")
OUTSIDE = "stock"  # the query that writes outside the home, where recovery has to look too
PLANS = ("own", "simple", "kept")  # the engine's own; none or all of what can be materialized is


def arm(strikes: Strikes) -> None:
    _before(strikes, Positions, "begin", "positions.before")
    _before(strikes, Tick, "begin", "tick.begin")
    probe_order = Tick.probe_order

    def watched_order(tick: Tick, phase: int, gathered: Any, probed: Any, tasks: int) -> ProbeOrder:
        strikes.reach("phase.between" if probed else "gather.after")
        return probe_order(tick, phase, gathered, probed, tasks)

    Tick.probe_order = watched_order  # type: ignore[method-assign]
    going = _watch_garbage(strikes)
    _before(strikes, Tick, "finished", "probe.after")
    link = os.link

    def watched_link(draft: Path, path: Path) -> None:
        strikes.reach("manifest.draft")
        if going.merged or going.expired:
            strikes.reach("manifest.replacing")
        link(draft, path)
        strikes.reach("manifest.linked")

    os.link = watched_link
    spark_module.publish = _in_two(strikes, spark_module.publish, "publish.between")
    _before(strikes, spark_module, "publish", "publish.before")
    home_module.publish = _in_two(strikes, home_module.publish, "recover.publish")
    discard = spark_module.discard

    def watched_discard(home: Path, files: list[str]) -> None:
        if files:
            strikes.reach("discard.before")
        point = "expire.between" if going.expired else "discard.between"
        _in_two(strikes, lambda some: discard(home, some), point)(files)

    spark_module.discard = watched_discard
    _after(strikes, spark_module.SparkRuntime, "_run_batch", "tick.end")
    rmtree = home_module.shutil.rmtree

    def watched_rmtree(folder: Path, **options: Any) -> None:
        if folder.exists():
            strikes.reach("recover.clear")
        rmtree(folder, **options)

    home_module.shutil = SimpleNamespace(rmtree=watched_rmtree)


@dataclass
class Going:
    """The files that nobody needs after the tick that is being committed, and why."""

    merged: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)


def _watch_garbage(strikes: Strikes) -> Going:
    finished, going = Tick.finished, Going()

    def watched(tick: Tick, gathered: Any, probed: Any) -> tuple[Manifest, list[str]]:
        manifest, garbage = finished(tick, gathered, probed)
        going.merged = {bucket.file for report in probed for job, _ in report.merged for bucket in job.inputs}
        going.expired = set(garbage) - going.merged
        if going.expired:
            strikes.reach("expire.before")
        return manifest, garbage

    Tick.finished = watched  # type: ignore[method-assign]
    return going


def _before(strikes: Strikes, owner: Any, name: str, point: str) -> None:
    function = getattr(owner, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        strikes.reach(point)
        return function(*arguments, **named)

    setattr(owner, name, watched)


def _after(strikes: Strikes, owner: Any, name: str, point: str) -> None:
    function = getattr(owner, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        strikes.reach(point)
        return result

    setattr(owner, name, watched)


def _in_two(strikes: Strikes, function: Callable[[list[Any]], None], point: str) -> Callable[[Any], None]:
    """A function over a list, with a point behind its first item; reached only where there are more."""

    def watched(items: Any) -> None:
        listed = list(items)
        function(listed[:1])
        if len(listed) > 1:
            strikes.reach(point)
        function(listed[1:])

    return watched


def _chosen(plan: str) -> Callable[..., Solution]:
    def prefer(options: list[Subquery]) -> Subquery:
        return next((option for option in options if option.is_stream == (plan == "simple")), options[0])

    return lambda problem, **_: plan_by(problem, prefer)


def build(given: argparse.Namespace) -> Engine:
    settings = {
        "spark.python.daemon.module": "tests.fault.daemon",
        f"spark.executorEnv.{FOLDER_VARIABLE}": str(given.strikes),
        f"spark.executorEnv.{DRIVER_VARIABLE}": str(os.getpid()),
        "spark.executor.memory": "512m",
        # A short life needs no optimizing compiler: the program starts faster without.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
    }
    rows = {"driver_rows": given.driver_rows}
    engine = Engine(home=given.home, partitions=given.partitions, master=given.master, **rows, **settings)
    case = make_case(ticks=1)
    for stream in case.streams:
        if given.streams and stream.name not in given.streams:
            continue
        files = given.input / stream.name / ("*" if given.reader == "spark" else "")
        engine.sql(f"{stream.create} '{files}' WITH (maxFilesPerTrigger = 1);")
    for query in case.queries:
        if not given.queries or query.name in given.queries:
            outside = Sink(path=str(given.input.parent / OUTSIDE)) if query.name == OUTSIDE else None
            engine.query(query.name, query.sql, outside)
    return engine


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--strikes", type=Path, required=True, help="an empty folder for the orders to kill")
    parser.add_argument("--kill", action="append", default=[], metavar="POINT:N[:VICTIM]")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--plan", choices=PLANS, default="own")
    parser.add_argument("--reader", choices=("engine", "spark"), default="engine", help="who reads the input files")
    parser.add_argument("--driver-rows", type=int, default=0, help="0: all work is done by tasks")
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--late-order", nargs=2, default=[], metavar=("FILE", "NAME"), help="see daemon.py")
    parser.add_argument("--streams", type=lambda text: text.split(","), default=[])
    parser.add_argument("--queries", type=lambda text: text.split(","), default=[])
    given = parser.parse_args()
    os.environ[FOLDER_VARIABLE] = str(given.strikes)
    os.environ[DRIVER_VARIABLE] = str(os.getpid())
    if given.late_order:
        os.environ[LATE_VARIABLE] = ":".join(given.late_order)
    strikes = Strikes(given.strikes)
    for order in given.kill:
        strikes.order(order)
    arm(strikes)
    if given.plan != "own":
        planning.optimize = _chosen(given.plan)
    engine = build(given)
    commit = spark_module.commit

    def told_commit(home: Path, manifest: Manifest) -> None:
        commit(home, manifest)
        print(f"tick {manifest.tick}", flush=True)

    spark_module.commit = told_commit
    print("started", flush=True)
    with engine:
        engine.run_once()
    print("done", flush=True)


if __name__ == "__main__":
    main()
