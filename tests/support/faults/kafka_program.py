"""An engine from Kafka to Kafka as a program that can be killed anywhere.

`python -m tests.support.faults.kafka_program HOME --servers … --strikes FOLDER --kill POINT:N[:VICTIM] …` joins what
the input topics hold, delivers the results to a topic, and ends, or dies on the way.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from tests.support.faults.strikes import BROKER_VARIABLE, DRIVER_VARIABLE, FOLDER_VARIABLE, Strikes
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine, points

STREAMS = ("orders", "payments", "parcels")
QUERY = "delivered"
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
    servers = f"'bootstrap.servers' = '{given.servers}'"
    for stream in STREAMS:
        engine.sql(
            f"CREATE STREAM {stream} (at TIMESTAMP, id BIGINT, k BIGINT, item BIGINT) TIMESTAMP BY at "
            f"LATENESS INTERVAL '1' DAY AHEAD UNBOUNDED "
            f"FROM kafka '{given.prefix}{stream}' WITH ({servers}, maxRowsPerTick = {given.rows})"
        )
    engine.sql(f"CREATE QUERY {QUERY} INTO kafka '{given.prefix}results' WITH ({servers}, key = 'o') AS {JOIN}")
    return engine


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--strikes", type=Path, required=True)
    parser.add_argument("--kill", action="append", default=[], metavar="POINT:N[:VICTIM]")
    parser.add_argument("--executor", choices=("spark", "local"), default="local")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--broker", default="", help="a file with the process of the broker")
    given = parser.parse_args()
    os.environ[FOLDER_VARIABLE] = str(given.strikes)
    os.environ[DRIVER_VARIABLE] = str(os.getpid())
    os.environ[BROKER_VARIABLE] = given.broker
    strikes = Strikes(given.strikes)
    for order in given.kill:
        strikes.order(order)
    points.subscribe(lambda point, about: strikes.reach(point))
    with build(given) as engine:
        engine.run_once()
        # A run does not wait for deliveries that have failed; this one does.
        eventually(lambda: not engine.stats().as_json()["outbox"])
    print("done", flush=True)


if __name__ == "__main__":
    main()
