"""An engine from Delta to Delta and Postgres as a program that can be killed anywhere.

`python -m tests.support.faults.stores_program HOME TABLES --strikes FOLDER --kill POINT:N[:VICTIM] …` joins what the
tables hold, delivers the results to a table and, with --postgres, to a database, and ends, or dies on the way.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from tests.support.faults.daemon import Armed
from tests.support.faults.strikes import BROKER_VARIABLE, DRIVER_VARIABLE, FOLDER_VARIABLE, Strikes
from tests.support.waiting import PATIENCE
from watersmeet import Engine
from watersmeet.model import Sink

STREAMS = ("orders", "payments", "parcels")
RESULTS = "results"  # the table of results: a folder beside the input, and one of the database
JOIN = (
    "SELECT o.id AS o, p.id AS p, c.id AS c FROM orders [RANGE 1 HOUR] o, payments [RANGE 1 HOUR] p, "
    "parcels [RANGE 1 HOUR] c WHERE o.k = p.k AND p.item = c.item"
)


def build(given: argparse.Namespace) -> Engine:
    settings: dict[str, Any] = {"executor": given.executor}
    if given.executor == "spark":
        settings |= {
            "spark.python.daemon.module": "tests.support.faults.daemon",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.memory": "1g",
        }
    engine = Engine(
        home=given.home,
        plan_seconds=0.05,
        tick="1 millisecond",
        stop_seconds=PATIENCE,
        partitions=given.partitions,
        **settings,
    )
    for stream in STREAMS:
        engine.sql(
            f"CREATE STREAM {stream} (at TIMESTAMP, id BIGINT, k BIGINT, item BIGINT) TIMESTAMP BY at "
            f"LATENESS INTERVAL '1' DAY AHEAD UNBOUNDED "
            f"FROM delta '{given.tables / stream}' WITH (maxRowsPerTick = {given.rows})"
        )
    engine.query("to_delta", JOIN, Sink("delta", str(given.tables / RESULTS), (("compact", "4"),)))
    if given.postgres:
        engine.query("to_postgres", JOIN, Sink("postgres", RESULTS, tuple(json.loads(given.postgres).items())))
    return engine


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--postgres", default="", help="how to connect, as JSON")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--strikes", type=Path, required=True)
    parser.add_argument("--kill", action="append", default=[], metavar="POINT:N[:VICTIM]")
    parser.add_argument("--executor", choices=("spark", "local"), default="local")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--server", default="", help="a file with the process of the database")
    given = parser.parse_args()
    os.environ[FOLDER_VARIABLE] = str(given.strikes)
    os.environ[DRIVER_VARIABLE] = str(os.getpid())
    os.environ[BROKER_VARIABLE] = given.server
    strikes = Strikes(given.strikes)
    for order in given.kill:
        strikes.order(order)
    Armed(strikes)
    with build(given) as engine:
        engine.run_once()
        left = engine.stats().as_json()["outbox"]
    print(f"done {left}", flush=True)


if __name__ == "__main__":
    main()
