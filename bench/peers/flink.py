"""Flink SQL in an environment of its own (bench/peers/set-up flink): CSV files, streaming mode, a task a core.

`python -m bench.peers.flink WORKLOAD.json MODE`, where MODE is jobs (one for each query, one after the other), set (all
in one statement set) or multi (a statement set with the multi-way join operator). The time is the jobs' own, without
the start of the cluster.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from pyflink.table import TableEnvironment

from bench.peers.flink_tables import streaming
from bench.workloads.model import Outcome, Query, Workload
from bench.workloads.texts import flink_columns, flink_select


def environment(workload: Workload, mode: str) -> TableEnvironment:
    settings = {
        "table.exec.source.idle-timeout": "0",
        "table.optimizer.multi-join.enabled": "true" if mode == "multi" else "false",
        # Files of the sink are complete with a checkpoint; its size is the size of the state.
        "execution.checkpointing.interval": "10 s",
        "taskmanager.memory.task.heap.size": "4 g",
        "taskmanager.memory.managed.size": "64 m",
    }
    environment = streaming(state_folder(workload), settings)
    for stream in workload.streams:
        if stream.name in workload.used():
            columns = flink_columns(stream.columns)
            source = (
                f"WITH ('connector' = 'filesystem', 'path' = '{csv_folder(workload)}/{stream.name}', 'format' = 'csv')"
            )
            environment.execute_sql(f"CREATE TABLE `{stream.name}` ({columns}) {source}")
            environment.execute_sql(
                f"CREATE TABLE `{stream.name}_timed` ({columns}, rt AS TO_TIMESTAMP_LTZ(ts / 1000, 3), "
                f"WATERMARK FOR rt AS rt) {source}"
            )
    return environment


def csv_folder(workload: Workload) -> Path:
    return Path(workload.folder).parent / "csv-flink"


def state_folder(workload: Workload) -> Path:
    return Path(workload.folder).parent / "flink-state"


def out_folder(workload: Workload, query: Query) -> Path:
    return Path(workload.folder).parent / "flink-out" / query.name


def run(workload: Workload, mode: str) -> Outcome:
    environment_ = environment(workload, mode)
    inserts = []
    for query in workload.queries:
        columns = ", ".join(
            f"`{column.replace('.', '_')}` {_type(workload, query, column)}" for column in query.columns
        )
        environment_.execute_sql(
            f"CREATE TABLE `out_{query.name}` ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = '{out_folder(workload, query)}', 'format' = 'csv')"
        )
        inserts.append(f"INSERT INTO `out_{query.name}` {flink_select(query, interval_joins=mode != 'multi')}")
    seconds, spans = 0.0, []
    for group in [[one] for one in inserts] if mode == "jobs" else [inserts]:
        statements = environment_.create_statement_set()
        for insert in group:
            statements.add_insert_sql(insert)
        result = statements.execute()
        client = result.get_job_client()
        outcome = client.get_job_execution_result().result()
        took = outcome.get_net_runtime() / 1000
        seconds += took
        spans.append((time.time() - took, time.time()))
    results = {query.name: _lines(out_folder(workload, query)) for query in workload.queries}
    return Outcome(seconds=seconds, spans=spans, skipped=0, results=results, state_bytes=None, parts={})


def _type(workload: Workload, query: Query, column: str) -> str:
    alias, name = column.split(".")
    stream = next(table.stream for table in query.tables if table.alias == alias)
    return "STRING" if workload.stream(stream).columns[name] == "string" else "BIGINT"


def _lines(folder: Path) -> int:
    count = 0
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    count += block.count(b"\n")
    return count


if __name__ == "__main__":
    print(json.dumps(asdict(run(Workload.from_json(Path(sys.argv[1]).read_text()), sys.argv[2]))))
