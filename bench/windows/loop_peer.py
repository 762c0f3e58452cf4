"""A loop that runs DuckDB over the rows of each window when it is due: what a user writes by hand in an hour.

`python -m bench.windows.loop_peer WORKLOAD OUT`: one thread, a table of rows for each tick, a file for each window. It
has no recovery, no rule for late rows and shares nothing. It prints when each tick ended.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import duckdb

from bench.windows.advertising import MICROS, Question

STREAMS = ("impressions", "clicks")


def main(described: str, out: str) -> None:
    workload = json.loads(Path(described).read_text())
    questions = [Question(**each) for each in workload["questions"]]
    streams = [name for name in STREAMS if name == "impressions" or any(each.joins for each in questions)]
    for each in questions:
        Path(out, each.name).mkdir(parents=True)
    longest = max(each.range for each in questions)
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    ended = []
    for tick in range(workload["ticks"]):
        for name in streams:
            file = f"{workload['folder']}/{name}/{tick:06d}.parquet"
            connection.execute(f"CREATE TABLE {name}_{tick} AS SELECT * REPLACE (epoch_us(ts) AS ts) FROM '{file}'")
        # The newest row is a microsecond before the end of its tick, and closes windows that end before the tick.
        for each in questions:
            if tick % each.slide == 0 and tick > 0:
                _answer(connection, each, tick - each.range, tick, streams, f"{out}/{each.name}/{tick:06d}.parquet")
        for name in streams if tick >= longest else ():
            connection.execute(f"DROP TABLE {name}_{tick - longest}")
        ended.append(time.time())
    print(json.dumps(ended))


def _answer(
    connection: duckdb.DuckDBPyConnection, question: Question, begin: int, end: int, streams: list[str], file: str
) -> None:
    """The window from second `begin` to before `end`."""
    with_rows = range(max(0, begin), end)
    views = ", ".join(
        f"{name} AS ({' UNION ALL '.join(f'FROM {name}_{tick}' for tick in with_rows)})" for name in streams
    )
    query = question.duckdb(f"make_timestamp({begin * MICROS})")
    connection.execute(f"COPY (WITH {views} {query}) TO '{file}' (FORMAT parquet)")


if __name__ == "__main__":
    main(*sys.argv[1:])
