"""Pathway in an environment of its own (bench/peers/set-up pathway): CSV files, static mode (one batch), counts out.

`python -m bench.peers.pathway WORKLOAD.json`. Windows are interval joins, then
an exact test of all pairs of event times.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pathway as pw

from bench.workloads.model import MICROS, Outcome, Query, Table, Workload

KINDS = {"timestamp": int, "int": int, "bigint": int, "string": str}


def inputs(workload: Workload) -> dict[str, Any]:
    folder = Path(workload.folder).parent / "csv-pathway"
    return {
        stream.name: pw.io.csv.read(
            str(folder / stream.name),
            schema=pw.schema_from_types(**{f"c_{name}": KINDS[kind] for name, kind in stream.columns.items()}),
            mode="static",
        )
        for stream in workload.streams
        if stream.name in workload.used()
    }


def joined(tables: dict[str, Any], query: Query) -> Any:
    result = _renamed(tables, query, query.tables[0])
    for table, pairs in query.joins():
        right = _renamed(tables, query, table)
        on = [result[left.replace(".", "_")] == right[new.replace(".", "_")] for left, new in pairs]
        both = {name: result[name] for name in result.column_names()}
        both |= {name: right[name] for name in right.column_names()}
        first = query.tables[0]
        if table.seconds is not None and first.seconds is not None:
            span = pw.temporal.interval(-table.seconds * MICROS, first.seconds * MICROS)
            times = result[f"{first.alias}_ts"], right[f"{table.alias}_ts"]
            result = result.interval_join(right, *times, span, *on).select(**both)
        else:
            result = result.join(right, *on).select(**both)
    conditions = [
        result[f"{other.alias}_ts"] - result[f"{table.alias}_ts"] <= table.seconds * MICROS
        for table in query.tables
        for other in query.tables
        if table.seconds is not None and other.alias != table.alias
    ]
    if conditions:
        result = result.filter(reduce(and_, conditions))
    return result.select(**{name.replace(".", "_"): result[name.replace(".", "_")] for name in query.columns})


def _renamed(tables: dict[str, Any], query: Query, table: Table) -> Any:
    source = tables[table.stream]
    for filter_ in query.filters:
        name, condition = filter_.split(" ", 1)
        if name.startswith(f"{table.alias}."):
            source = source.filter(_condition(source[f"c_{name.split('.')[1]}"], condition))
    names = [*query.needed(table.alias), "ts"]
    return source.select(**{f"{table.alias}_{name}": source[f"c_{name}"] for name in names})


def _condition(column: Any, text: str) -> Any:
    """Filters of the workloads are `= value` or `IN (values)`."""
    operator, values = text.split(" ", 1)
    wanted = json.loads(f"[{values.strip('()')}]".replace("'", '"'))
    if operator not in ("=", "IN"):
        raise ValueError(f"unknown filter: {text}")
    return reduce(lambda one, other: one | other, [column == value for value in wanted])


def run(workload: Workload) -> Outcome:
    results = dict.fromkeys((query.name for query in workload.queries), 0)
    tables = inputs(workload)
    for query in workload.queries:
        found = joined(tables, query)
        pw.io.null.write(found)

        def told(key: Any, row: dict[str, Any], time: int, is_addition: bool, name: str = query.name) -> None:
            if is_addition:
                results[name] = row["count"]

        pw.io.subscribe(found.reduce(count=pw.reducers.count()), on_change=told)
    began = time.time()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    ended = time.time()
    return Outcome(
        seconds=ended - began, spans=[(began, ended)], skipped=0, results=results, state_bytes=None, parts={}
    )


if __name__ == "__main__":
    print(json.dumps(asdict(run(Workload.from_json(Path(sys.argv[1]).read_text())))))
