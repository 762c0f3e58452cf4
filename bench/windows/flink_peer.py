"""`python -m bench.windows.flink_peer WORKLOAD.json OUT` in Flink's environment: HOP windows in one statement set.

The last line printed is when the job began and ended."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyflink.table import StatementSet, TableEnvironment

from bench.peers.flink_tables import streaming
from bench.windows.workload import Workload


def environment(out: Path) -> TableEnvironment:
    settings = {
        "execution.checkpointing.interval": "10 s",
        "taskmanager.memory.task.heap.size": "3 g",
        "taskmanager.memory.managed.size": "4 g",  # each of its aggregations needs some pages of it
        "restart-strategy.type": "none",  # an error ends the job
        "taskmanager.memory.network.min": "256 m",
        "taskmanager.memory.network.max": "256 m",
    }
    return streaming(out / "state", settings)


def run(workload: Workload, out: Path) -> tuple[float, float]:
    made = environment(out)
    made.execute_sql(
        "CREATE TABLE r (ts BIGINT, k BIGINT, x BIGINT, rt AS TO_TIMESTAMP_LTZ(ts / 1000, 3), "
        # Its readers take files in any order: with less lateness it would drop rows.
        f"WATERMARK FOR rt AS rt - INTERVAL '{workload.ticks}' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{workload.folder}/csv', 'format' = 'csv')"
    )
    statements = made.create_statement_set()
    for each in workload.aggregations:
        made.execute_sql(
            f"CREATE TABLE out_{each.name} (w BIGINT, k BIGINT, v DOUBLE) WITH ('connector' = 'filesystem', "
            f"'path' = '{out}/{each.name}', 'format' = 'csv')"
        )
        statements.add_insert_sql(f"INSERT INTO out_{each.name} {each.flink()}")
    return executed(statements)


def executed(statements: StatementSet) -> tuple[float, float]:
    """When its job began and ended."""
    client = statements.execute().get_job_client()
    took = client.get_job_execution_result().result().get_net_runtime() / 1000
    return time.time() - took, time.time()


if __name__ == "__main__":
    print(json.dumps(run(Workload.from_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))))
