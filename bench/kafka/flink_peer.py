"""`python -m bench.kafka.flink_peer SERVERS FOLDER JAR` in Flink's environment: its source, interval joins, and sink.

The sink is exactly-once, as ours: results are committed with checkpoints, every second.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyflink.table import TableEnvironment

from bench.kafka.workload import PAIRS, STREAMS, WINDOW
from bench.peers.flink_tables import streaming


def environment(folder: str, jar: str) -> TableEnvironment:
    settings = {
        "pipeline.jars": f"file://{jar}",
        "execution.checkpointing.interval": "1 s",
        "taskmanager.memory.task.heap.size": "3 g",
        "taskmanager.memory.managed.size": "256 m",
    }
    return streaming(Path(folder) / "state", settings)


def main(servers: str, folder: str, jar: str) -> None:
    made = environment(folder, jar)
    common = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}'"
    json = "'json.timestamp-format.standard' = 'ISO-8601'"
    for name, columns in STREAMS.items():
        made.execute_sql(
            f"CREATE TABLE {name} (ts TIMESTAMP_LTZ(6), id BIGINT, {', '.join(f'{c} BIGINT' for c in columns)}, "
            f"rt AS CAST(ts AS TIMESTAMP_LTZ(3)), WATERMARK FOR rt AS rt - INTERVAL '{WINDOW}' SECOND) "
            f"WITH ({common}, 'topic' = '{name}', 'properties.group.id' = 'flink', 'format' = 'json', {json}, "
            "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')"
        )
    made.execute_sql(
        f"CREATE TABLE pairs (r BIGINT, s BIGINT, t BIGINT, c BIGINT) WITH ({common}, 'topic' = 'out_flink', "
        "'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'flink', "
        "'properties.transaction.timeout.ms' = '600000')"
    )
    # Its event times have milliseconds: an interval a bit too wide, then the exact test.
    span = f"INTERVAL '{WINDOW}.001' SECOND"
    near = f"BETWEEN r.rt - {span} AND r.rt + {span}"
    tests = " AND ".join(
        f"{one}.ts <= {other}.ts + INTERVAL '{WINDOW}' SECOND AND {other}.ts <= {one}.ts + INTERVAL '{WINDOW}' SECOND"
        for one, other in PAIRS
    )
    print(f"began {time.time()}", flush=True)
    made.execute_sql(
        "INSERT INTO pairs SELECT r.id, s.id, t.id, t.c "
        f"FROM r JOIN s ON r.a = s.a AND s.rt {near} JOIN t ON s.b = t.b AND t.rt {near} "
        f"WHERE {tests}"
    ).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
