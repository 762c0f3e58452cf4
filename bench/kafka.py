"""`bench/run kafka`: from Kafka to Kafka in JSON, by a real broker on loopback, and by Spark's own source, joins, sink.

Spark's Kafka package is a mix of versions that works with this Spark: 4.2.0, with the token provider of 4.0.0.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from confluent_kafka import Consumer, Producer

from bench.pipeline import run_pipeline
from bench.report import write_json
from bench.scratch import in_scratch
from tests.support.brokers.kafka import KafkaBroker, running_broker
from tests.support.brokers.maven import jars
from watersmeet import Engine
from watersmeet.home.tick_log import recent_ticks
from watersmeet.session import SETTINGS, make_session

STREAMS = {"r": ("a",), "s": ("a", "b"), "t": ("b", "c")}
EPOCH = 1_767_225_600_000_000  # 2026-01-01
_PARTITIONS = 4
_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
WINDOW = 10  # seconds


def run(
    rows: Annotated[int, typer.Option(help="rows of each stream")] = 500_000,
    seconds: Annotated[int, typer.Option(help="how long rows arrive, for the latency")] = 30,
    systems: Annotated[str, typer.Option(help="ours, spark, or both with a comma")] = "ours,spark",
) -> None:
    """From Kafka to Kafka: three-way join, reading JSON, latency at 5,000 rows/s."""
    found: dict[str, Any] = {}
    in_scratch(lambda folder: _run(folder, rows, seconds, systems.split(","), found))
    write_json("kafka", found)


def _run(folder: Path, rows: int, seconds: int, systems: list[str], found: dict[str, Any]) -> None:
    with running_broker(folder / "broker", log_message_timestamp_after_max_ms=str(2**62)) as broker:
        produce_streams(broker, rows)
        joins: dict[str, Callable[..., float]] = {"ours": our_join, "spark": sparks_join}
        for name in systems:
            broker.create(f"out_{name}", _PARTITIONS, message_timestamp_type="LogAppendTime")
            took = joins[name](broker, folder / name, rows)
            results = len(broker.messages(f"out_{name}"))
            found[f"join {name}"] = {"seconds": took, "rows_per_second": 3 * rows / took, "results": results}
            print(f"three-way join, {name}: {3 * rows / took:,.0f} rows/s, {results:,} results", flush=True)
        if "ours" in systems:
            rate = our_reading(broker, folder / "reading", 4 * rows)
            found["reading JSON of 5 columns"] = rate
            print(f"reading JSON of 5 columns: {rate:,.0f} rows/s", flush=True)
        latencies: dict[str, Callable[..., Any]] = {"ours": our_latency, "spark": sparks_latency}
        for name in systems:
            for topic in (f"left_{name}", f"right_{name}", f"pairs_{name}"):
                broker.create(topic, 2)
            found[f"latency {name}"] = latencies[name](broker, folder / f"latency_{name}", seconds)
            p50, p95 = found[f"latency {name}"]
            print(f"latency, {name}: p50 {p50:.3f} s, p95 {p95:.3f} s", flush=True)


# Input --------------------------------------------------------------------------------------------------


def produce_streams(broker: KafkaBroker, rows: int) -> None:
    """Ten seconds of event time are a tenth of the rows; keys come from as many values as a window has rows."""
    rng = np.random.default_rng(1)
    for name, columns in STREAMS.items():
        broker.create(name, _PARTITIONS)
        times = np.sort(rng.integers(0, 10 * WINDOW * 1_000_000, rows)) + EPOCH
        keys = {column: rng.integers(0, rows // 10, rows) for column in columns}
        texts: list[bytes | None] = []
        for at, micros in enumerate(times):
            row = {"ts": _iso(int(micros)), "id": at, **{column: int(values[at]) for column, values in keys.items()}}
            texts.append(json.dumps(row).encode())
        broker.send(name, texts)


def _iso(micros: int) -> str:
    whole = np.datetime64(micros, "us")
    return f"{whole}Z"


# Three-way join -----------------------------------------------------------------------------------------


def our_join(broker: KafkaBroker, home: Path, rows: int) -> float:
    servers = f"'bootstrap.servers' = '{broker.address}'"
    script = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, {', '.join(f'{c} BIGINT' for c in columns)}) TIMESTAMP BY ts "
        f"LATENESS INTERVAL '{WINDOW}' SECOND FROM kafka '{name}' WITH ({servers}, maxRowsPerTick = {rows // 10});\n"
        for name, columns in STREAMS.items()
    )
    window = f"[RANGE {WINDOW} SECONDS]"
    script += (
        f"CREATE QUERY q INTO kafka 'out_ours' WITH ({servers}) AS SELECT r.id AS r, s.id AS s, t.id AS t, t.c AS c "
        f"FROM r {window}, s {window}, t {window} WHERE r.a = s.a AND s.b = t.b;"
    )
    home.parent.mkdir(exist_ok=True)
    run_pipeline(script, home)
    ticks = recent_ticks(home)
    return _last_result(broker, "out_ours") - (ticks[0].finished_at - ticks[0].total)


def _last_result(broker: KafkaBroker, topic: str) -> float:
    return max(float(message.timestamp()[1]) for message in broker.messages(topic)) / 1000


def _spark() -> Any:
    libraries = jars("spark-kafka", *_ARTIFACTS, excluded=("*:*",))
    settings = {name: value for name, value in SETTINGS.items() if name != "spark.python.daemon.module"}
    listed = ",".join(str(path) for path in libraries.glob("*.jar"))
    return make_session(
        settings={**settings, "spark.jars": listed, "spark.sql.shuffle.partitions": str(os.cpu_count())}
    )


def _sparks_input(spark: Any, broker: KafkaBroker, topic: str, columns: dict[str, str], **options: str) -> Any:
    from pyspark.sql import functions as f

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options)
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    parsed = reader.load().select(f.from_json(f.col("value").cast("string"), schema).alias("v")).select("v.*")
    return parsed.select(*(f.col(name).alias(f"{topic[0]}_{name}") for name in columns))


def sparks_join(broker: KafkaBroker, folder: Path, rows: int) -> float:
    from pyspark.sql import functions as f

    spark = _spark()
    frames = {}
    for name, columns in STREAMS.items():
        kinds = {"ts": "timestamp", "id": "bigint", **dict.fromkeys(columns, "bigint")}
        frame = _sparks_input(spark, broker, name, kinds, maxOffsetsPerTrigger=str(rows // 10))
        frames[name] = frame.withWatermark(f"{name}_ts", f"{WINDOW} seconds")
    span = f"INTERVAL {WINDOW} SECONDS"
    # One event time remains after a join; the other is compared as a number.
    near = f"s_ts BETWEEN r_ts - {span} AND r_ts + {span}"
    first = frames["r"].join(frames["s"], f.expr(f"r_a = s_a AND {near}"))
    first = first.withColumn("s_us", f.expr("unix_micros(s_ts)")).drop("s_ts")
    also = f"t_ts BETWEEN r_ts - {span} AND r_ts + {span} AND abs(unix_micros(t_ts) - s_us) <= {WINDOW}000000"
    joined = first.join(frames["t"], f.expr(f"s_b = t_b AND {also}"))
    rows_out = joined.selectExpr("to_json(struct(r_id AS r, s_id AS s, t_id AS t, t_c AS c)) AS value")
    writer = rows_out.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    writer = writer.option("topic", "out_spark").option("checkpointLocation", f"{folder}/check")
    began = time.time()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()
    return _last_result(broker, "out_spark") - began


# Reading ------------------------------------------------------------------------------------------------


def our_reading(broker: KafkaBroker, home: Path, rows: int) -> float:
    """The median rate of ticks in which tasks read, decode and store JSON of five columns."""
    broker.create("wide", _PARTITIONS)
    texts: list[bytes | None] = [
        json.dumps(
            {"ts": _iso(EPOCH + at), "id": at, "a": at % 1000, "price": at / 7, "name": f"item {at % 999}"}
        ).encode()
        for at in range(rows)
    ]
    broker.send("wide", texts)
    script = (
        "CREATE STREAM w (ts TIMESTAMP, id BIGINT, a BIGINT, price DOUBLE, name STRING) TIMESTAMP BY ts "
        f"FROM kafka 'wide' WITH ('bootstrap.servers' = '{broker.address}', maxRowsPerTick = {rows // 8});"
        "CREATE QUERY n INTO count AS SELECT * FROM w [RANGE 1 SECOND] x, w [RANGE 1 SECOND] y "
        "WHERE x.id = y.id AND x.a = 1 AND y.a = 1;"
    )
    run_pipeline(script, home)
    ticks = recent_ticks(home)[2:]  # the first ones compile and connect
    return statistics.median(tick.rows / tick.gather for tick in ticks)


# Latency ------------------------------------------------------------------------------------------------

RATE = 5_000  # rows per second, of both streams together


def _feed(broker: KafkaBroker, name: str, seconds: int) -> threading.Thread:
    """Pairs of rows with the same id, each with the moment at which it was produced."""

    def work() -> None:
        producer = Producer(broker.settings(**{"linger.ms": 1, "queue.buffering.max.messages": 1_000_000}))
        begin, sent = time.time(), 0
        while sent < RATE // 2 * seconds:
            due = min(RATE // 2 * seconds, int((time.time() - begin) * RATE / 2))
            for number in range(sent, due):
                now = time.time_ns() // 1000
                text = json.dumps({"ts": _iso(now), "id": number, "sent": now}).encode()
                for side in ("left", "right"):
                    producer.produce(f"{side}_{name}", text)
            sent = max(sent, due)
            producer.poll(0)
            time.sleep(0.005)
        producer.flush(60)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def _measure(broker: KafkaBroker, name: str, seconds: int) -> tuple[float, float]:
    """Median and 95th percentile of produce → read_committed result, without the first third."""
    consumer = Consumer(broker.settings(**{"group.id": name, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 5}))
    consumer.subscribe([f"pairs_{name}"])
    feeding = _feed(broker, name, seconds)
    wanted = RATE // 2 * seconds
    taken: list[float] = []
    end = time.time() + 3 * seconds + 120
    while len(taken) < wanted and time.time() < end:
        for message in consumer.consume(1000, 0.01):
            value = message.value()
            if message.error() is None and value is not None:
                taken.append(time.time() - json.loads(value)["sent"] / 1e6)
    feeding.join()
    consumer.close()
    assert len(taken) == wanted, f"{len(taken):,} of {wanted:,} results"
    late = sorted(taken[wanted // 3 :])
    return statistics.median(late), late[int(len(late) * 0.95)]


def our_latency(broker: KafkaBroker, home: Path, seconds: int) -> tuple[float, float]:
    servers = f"'bootstrap.servers' = '{broker.address}'"
    engine = Engine(home=home, tick="20 milliseconds")
    for side in ("left", "right"):
        engine.sql(
            f"CREATE STREAM {side}_ (ts TIMESTAMP, id BIGINT, sent BIGINT) TIMESTAMP BY ts "
            f"LATENESS INTERVAL '{WINDOW}' SECOND FROM kafka '{side}_ours' WITH ({servers})"
        )
    engine.sql(
        f"CREATE QUERY p INTO kafka 'pairs_ours' WITH ({servers}) AS "
        f"SELECT l.id AS id, greatest(l.sent, r.sent) AS sent FROM left_ [RANGE {WINDOW} SECONDS] l, "
        f"right_ [RANGE {WINDOW} SECONDS] r WHERE l.id = r.id"
    )
    with engine.start():
        time.sleep(5)
        found = _measure(broker, "ours", seconds)
    engine.spark.stop()
    return found


def sparks_latency(broker: KafkaBroker, folder: Path, seconds: int) -> tuple[float, float]:
    from pyspark.sql import functions as f

    spark = _spark()
    kinds = {"ts": "timestamp", "id": "bigint", "sent": "bigint"}
    left, right = (
        _sparks_input(spark, broker, f"{side}_spark", kinds).withWatermark(f"{side[0]}_ts", f"{WINDOW} seconds")
        for side in ("left", "right")
    )
    span = f"INTERVAL {WINDOW} SECONDS"
    joined = left.join(right, f.expr(f"l_id = r_id AND l_ts BETWEEN r_ts - {span} AND r_ts + {span}"))
    pairs = joined.selectExpr("to_json(struct(l_id AS id, greatest(l_sent, r_sent) AS sent)) AS value")
    writer = pairs.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    writer = writer.option("topic", "pairs_spark").option("checkpointLocation", f"{folder}/check")
    query = writer.trigger(processingTime="0 seconds").start()
    time.sleep(5)
    found = _measure(broker, "spark", seconds)
    query.stop()
    spark.stop()
    return found
