"""The engine as a program that can be killed anywhere.

`python -m tests.support.faults.program HOME INPUT --kill POINT:N …` processes what INPUT holds and ends, or dies on the
way, at points of the driver or of its tasks.
"""

from __future__ import annotations

import argparse
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.faults.daemon import LATE_VARIABLE, WAIT_VARIABLE, Armed, let_results_wait
from tests.support.faults.strikes import CANCEL, DRIVER_VARIABLE, FOLDER_VARIABLE, Strikes
from tests.support.faults.workload import make_case
from tests.support.plans import plan_by
from watersmeet import Engine, points
from watersmeet.home.manifest import load_newest
from watersmeet.model import Sink
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.solution import Solution
from watersmeet.plan import planner
from watersmeet.runtime.exec import probing, spark
from watersmeet.runtime.tick import tick

# Those of watersmeet/points.py, and some that are told apart by what a tick does.
TICK_POINTS = (
    "positions.before",
    "tick.begin",
    "gather.after",
    "phase.between",
    "release.after",
    "probe.after",
    "manifest.draft",
    "manifest.replacing",  # in a tick that makes buckets superfluous: they must still be there
    "manifest.linked",
    "publish.before",
    "publish.between",
    "discard.before",
    "discard.between",
    "expire.before",  # the tick in which buckets expire as a whole, before it is committed
    "expire.between",  # and while they are deleted
    "tick.end",
)
RECOVERY_POINTS = ("recover.publish", "recover.clear")
TWIN, TWIN_OF = "twin", "paid"  # with --twin, a query like another that fails when its folder is lost
GUEST = "guest"  # a query like these that comes and goes
OUTSIDE = "stock"  # the query that writes outside the home, where recovery has to look too
# Windowed queries: of slices, by Spark, of the results of a join, and of rows in tasks
WINDOWED = {
    "per_customer": "SELECT window_start, customer, count(*) AS n, sum(v) AS s FROM orders {} GROUP BY customer",
    "payers": "SELECT window_start, count(DISTINCT customer) AS n, median(v) AS m FROM payments {}",
    "soon_paid": "SELECT window_start, o.id, p.id AS by, p.v FROM orders {0} o JOIN payments {0} p "
    "ON o.customer = p.customer AND o.v < p.v",
    "largest": "SELECT window_start, customer, v FROM orders {0} WHERE v = (SELECT max(v) FROM orders {0})",
}
WINDOWS = {"per_customer": "[RANGE 8 SECONDS SLIDE 4 SECONDS]", "payers": "[TUMBLE 6 SECONDS]"}
WINDOWS |= dict.fromkeys(("soon_paid", "largest"), "[RANGE 6 SECONDS SLIDE 3 SECONDS]")
SPENT = "spent"  # one that has two forms, with --forms
WINDOWED_JOIN = (
    "SELECT {2} AS w, o.customer, count(*) AS n, sum(p.v) AS s FROM orders{0} o JOIN payments{1} p "
    "ON o.customer = p.customer GROUP BY o.customer"
)
PLANS = ("own", "simple", "kept")  # the engine's own; none or all of what can be materialized is


def _chosen(plan: str) -> Callable[..., Solution]:
    def prefer(options: list[Subquery]) -> Subquery:
        return next((option for option in options if option.is_stream == (plan == "simple")), options[0])

    return lambda problem, **_: plan_by(problem, prefer)


def build(given: argparse.Namespace) -> Engine:
    settings: dict[str, Any] = {
        "spark.python.daemon.module": "tests.support.faults.daemon",
        f"spark.executorEnv.{FOLDER_VARIABLE}": str(given.strikes),
        f"spark.executorEnv.{DRIVER_VARIABLE}": str(os.getpid()),
        "spark.executor.memory": "512m",
        # A short life needs no optimizing compiler: the program starts faster without.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
    }
    engine = Engine(
        home=given.home,
        partitions=given.partitions,
        master=given.master,
        residents=given.residents,
        resident_seconds=given.resident_seconds,
        # With a searcher that was asked for, the engine does not weigh its plan against one that keeps nothing.
        windows_per_tick=given.windows_per_tick,
        searcher="" if given.plan == "own" else "greedy",
        **settings,
    )
    case = make_case(ticks=1)
    for stream in case.streams:
        if given.streams and stream.name not in given.streams:
            continue
        files = given.input / stream.name / ("*" if given.reader == "spark" else "")
        engine.sql(stream.reading(files))
    for query in case.queries:
        if not given.queries or query.name in given.queries:
            outside = Sink(path=str(given.input.parent / OUTSIDE)) if query.name == OUTSIDE else None
            engine.query(query.name, computed_by_spark(query.sql) if given.by_spark else query.sql, outside)
    for name, sql in WINDOWED.items() if given.windowed else ():
        engine.query(name, sql.format(WINDOWS[name]))
    if given.forms:
        window = " [RANGE 8 SECONDS SLIDE 4 SECONDS]"
        engine.query(SPENT, WINDOWED_JOIN.format(window, window, "window_start"))
    if given.twin:
        engine.query(TWIN, _sql_of(TWIN_OF), Sink(path=str(given.input.parent / TWIN)))
    return engine


def _sql_of(query: str) -> str:
    return next(each.sql for each in make_case(ticks=1).queries if each.name == query)


class Changes:
    """`POINT:N:ACTION`: what the program does with its engine when it reaches a point of a tick for the N-th time."""

    def __init__(self, engine: Engine, folder: Path, orders: list[str]) -> None:
        self._engine, self._folder = engine, folder
        self._orders = [(point, int(number), action) for point, number, action in (o.split(":") for o in orders)]
        self._reached: Counter[str] = Counter()
        points.subscribe(self._reach)

    def _reach(self, point: str, about: object) -> None:
        self._reached[point] += 1
        for at, number, action in self._orders:
            if (at, number) == (point, self._reached[point]):
                getattr(self, f"_{action}")()
                print(action, flush=True)

    def _lose(self) -> None:
        lose_folder(self._folder / TWIN)

    def _repair(self) -> None:
        repair_folder(self._folder / TWIN)

    def _resume(self) -> None:
        self._engine.resume(TWIN)

    def _add(self) -> None:
        self._engine.query(GUEST, _sql_of(TWIN_OF), backfill=True)

    def _change(self) -> None:
        """Let a query change to its other form, as the engine does after an epoch."""
        keeper = self._engine._keeper
        (query,) = (each for each in keeper.current.queries if each.name == SPENT)
        keeper.follower.forms = {SPENT: next(each.kind for each in query.forms if each.kind != query.form.kind)}
        keeper.catch_up()

    def _drop(self) -> None:
        self._engine.drop(GUEST)


def lose_folder(folder: Path) -> None:
    """Something else is where results are to be written."""
    folder.rename(folder.with_name("lost"))
    folder.write_text("in the way")


def repair_folder(folder: Path) -> None:
    folder.unlink()
    folder.with_name("lost").rename(folder)


def computed_by_spark(sql: str) -> str:
    """A query with the same results, whose keys and filters Spark computes."""
    sql = re.sub(r"(\w+\.customer) = (\w+\.customer)", r"reverse(\1) = reverse(\2)", sql)
    return re.sub(r"(\w+\.v) > 0", r"cbrt(\1) > 0", sql)


def cancel_jobs(engine: Engine, asked: Path) -> None:
    """As somebody does who presses the button in Spark's own pages, when a strike asks for it."""
    while True:
        if asked.exists():
            engine.spark.sparkContext.cancelAllJobs()
            asked.unlink()
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--strikes", type=Path, required=True, help="an empty folder for the orders to kill")
    parser.add_argument("--kill", action="append", default=[], metavar="POINT:N[:VICTIM]")
    parser.add_argument("--twin", action="store_true", help=f"with the query {TWIN}")
    parser.add_argument("--do", action="append", default=[], metavar="POINT:N:ACTION", help="see Changes")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--plan", choices=PLANS, default="own")
    parser.add_argument("--reader", choices=("engine", "spark"), default="engine", help="who reads the input files")
    parser.add_argument("--in-parts", action="store_true", help="also a tick of few rows is shared out")
    parser.add_argument("--by-spark", action="store_true", help="Spark computes some keys and filters")
    parser.add_argument("--wait", action="store_true", help="results wait until the next tick")
    parser.add_argument("--windows-per-tick", type=int, default=16)
    parser.add_argument("--windowed", action="store_true", help="with windowed queries, all windows closed at the end")
    parser.add_argument("--forms", action="store_true", help=f"with the query {SPENT}, all windows closed at the end")
    parser.add_argument("--residents", default="auto")
    parser.add_argument("--resident-seconds", type=float, default=30.0)
    parser.add_argument("--master", default="", help="empty: what an engine takes by itself")
    parser.add_argument("--late-order", nargs=2, default=[], metavar=("FILE", "NAME"), help="see daemon.py")
    parser.add_argument("--streams", type=lambda text: text.split(","), default=[])
    parser.add_argument("--queries", type=lambda text: text.split(","), default=[])
    given = parser.parse_args()
    os.environ[FOLDER_VARIABLE] = str(given.strikes)
    os.environ[DRIVER_VARIABLE] = str(os.getpid())
    if given.late_order:
        os.environ[LATE_VARIABLE] = ":".join(given.late_order)
    if given.wait:
        os.environ[WAIT_VARIABLE] = "1"
        let_results_wait()
    strikes = Strikes(given.strikes)
    for order in given.kill:
        strikes.order(order)
    Armed(strikes)
    if given.in_parts:
        spark.FEW_BYTES = spark.FEW_BYTES_OF_A_JOB = -1
        tick.MIN_ROWS, probing.SHORT = 1, 0
    if given.plan != "own":
        setattr(planner, "optimize", _chosen(given.plan))  # noqa: B010 - a name that the module only imports
    engine = build(given)

    Changes(engine, given.input.parent, given.do)

    def tell(point: str, about: object) -> None:
        if point == "manifest.linked":
            print(f"tick {load_newest(given.home).tick}", flush=True)

    points.subscribe(tell)
    threading.Thread(target=cancel_jobs, args=(engine, given.strikes / CANCEL), daemon=True).start()
    print("started", flush=True)
    with engine:
        engine.run_once(flush=given.windowed or given.forms)
    print("done", flush=True)


if __name__ == "__main__":
    main()
