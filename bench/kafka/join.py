"""A three-way join with windows of ten seconds, from three topics to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.kafka.peers import flink_python, run_peer, spark_python
from bench.kafka.streams import PARTITIONS, check, produce, rows_of_a_tick
from bench.kafka.workload import STREAMS, WINDOW
from bench.observe import Observed
from bench.pipeline import run_pipeline
from tests.support.brokers.kafka import KafkaBroker
from tests.support.brokers.maven import jars
from watersmeet.home import layout
from watersmeet.home.tick_log import recent_ticks

# The only version in reach. It is made for the Flink before ours, and runs with it.
FLINK_CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"


@dataclass(frozen=True)
class Join:
    """Seconds from the first input to the last result, and CPU seconds of the system meanwhile, without the broker."""

    system: str
    rows: int
    results: int
    seconds: float
    cpu: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def joins(broker: KafkaBroker, folder: Path, rows: int, systems: list[str]) -> list[Join]:
    produce(broker, folder / "in", rows)
    runs: dict[str, Callable[[KafkaBroker, Path, int], tuple[float, Observed]]] = {
        "ours": _ours,
        "spark": _sparks,
        "flink": _flinks,
    }
    found = []
    for name in systems:
        topic = f"out_{name}"
        broker.create(topic, PARTITIONS, message_timestamp_type="LogAppendTime")
        begin, observed = runs[name](broker, folder / name, rows)
        results, end = check(broker, folder / "in", topic)
        found.append(Join(name, 3 * rows, results, end - begin, observed.cpu_within(begin, end)))
        print(f"three-way join: {found[-1]}", flush=True)
    return found


def _ours(broker: KafkaBroker, folder: Path, rows: int) -> tuple[float, Observed]:
    servers = f"'bootstrap.servers' = '{broker.address}'"
    options = f"{servers}, maxRowsPerTick = {rows_of_a_tick(rows)}"
    script = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, {', '.join(f'{c} BIGINT' for c in columns)}) TIMESTAMP BY ts "
        f"LATENESS INTERVAL '{WINDOW}' SECOND FROM kafka '{name}' WITH ({options});\n"
        for name, columns in STREAMS.items()
    )
    window = f"[RANGE {WINDOW} SECONDS]"
    script += (
        f"CREATE QUERY q INTO kafka 'out_ours' WITH ({servers}) AS SELECT r.id AS r, s.id AS s, t.id AS t, t.c AS c "
        f"FROM r {window}, s {window}, t {window} WHERE r.a = s.a AND s.b = t.b;"
    )
    measured = run_pipeline(script, folder)
    assert not (folder / layout.REJECTED).exists(), "rows were set aside"
    print(f"three-way join: the engine has {measured.results:,} results", flush=True)  # if the topic has others
    first = recent_ticks(folder)[0]
    return first.finished_at - first.total, measured.observed


def _sparks(broker: KafkaBroker, folder: Path, rows: int) -> tuple[float, Observed]:
    arguments = ("join", broker.address, str(folder), str(rows_of_a_tick(rows)))
    return run_peer(spark_python(), "bench.kafka.spark_peer", *arguments, log=folder / "log")


def _flinks(broker: KafkaBroker, folder: Path, rows: int) -> tuple[float, Observed]:
    (jar,) = jars("flink-kafka", FLINK_CONNECTOR, excluded=("*:*",)).glob("*.jar")
    arguments = (broker.address, str(folder), str(jar))
    return run_peer(flink_python(), "bench.kafka.flink_peer", *arguments, log=folder / "log")
