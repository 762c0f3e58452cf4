"""The input of the three-way join, as topics and as Parquet files, and what it has to give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.kafka.workload import PAIRS, RESULT, STREAMS, WINDOW
from tests.support.brokers.kafka import KafkaBroker, read_all

EPOCH = 1_767_225_600_000_000  # 2026-01-01
PARTITIONS = 4
_TICKS = 10  # that the whole input has, each with the rows of a window


def rows_of_a_tick(rows: int) -> int:
    return rows // _TICKS


def produce(broker: KafkaBroker, folder: Path, rows: int) -> None:
    """Ten seconds of event time are a tenth of the rows; keys come from as many values as a window has rows."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    for name, columns in STREAMS.items():
        times = np.sort(rng.integers(0, _TICKS * WINDOW * 1_000_000, rows)) + EPOCH
        keys = {column: rng.integers(0, rows_of_a_tick(rows), rows) for column in columns}
        written = pa.table({"us": times, "id": np.arange(rows), **keys})
        pq.write_table(written, folder / f"{name}.parquet")
        rows_out = ({"ts": iso(row.pop("us")), **row} for row in written.to_pylist())
        send(broker, name, [json.dumps(row).encode() for row in rows_out])


def send(broker: KafkaBroker, topic: str, texts: Sequence[bytes]) -> None:
    """A new topic, each partition of which has its messages in this order, as producers of one moment are."""
    broker.create(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        broker.send(topic, list(texts[partition::PARTITIONS]), partition=partition)


def iso(micros: int) -> str:
    return f"{np.datetime64(micros, 'us')}Z"


def check(broker: KafkaBroker, folder: Path, topic: str) -> tuple[int, float]:
    """The results in a topic are DuckDB's, each once. Returns how many, and when the last one was stored."""
    found: list[dict[str, Any]] = []
    last = 0
    for message in read_all(broker.settings(), topic):
        found.append(json.loads(message.value()))
        last = max(last, message.timestamp()[1])
    results = pa.Table.from_pylist(found, schema=pa.schema([(name, pa.int64()) for name in RESULT]))
    near = " AND ".join(f"abs({one}.us - {other}.us) <= {WINDOW}000000" for one, other in PAIRS)
    inputs = ", ".join(f"'{folder}/{name}.parquet' {name}" for name in STREAMS)
    wanted = f"SELECT r.id AS r, s.id AS s, t.id AS t, t.c FROM {inputs} WHERE r.a = s.a AND s.b = t.b AND {near}"
    with duckdb.connect() as oracle:
        oracle.register("results", results)
        oracle.execute(f"CREATE TABLE expected AS {wanted}")
        (missing,) = oracle.sql("SELECT count(*) FROM (FROM expected EXCEPT ALL FROM results)").fetchall()[0]
        (surplus,) = oracle.sql("SELECT count(*) FROM (FROM results EXCEPT ALL FROM expected)").fetchall()[0]
    assert missing == surplus == 0, f"{topic}: {missing:,} results are missing, {surplus:,} are too many"
    assert found
    return len(found), last / 1000
