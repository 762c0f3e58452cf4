"""`python -m bench.windows.flink_questions_peer WORKLOAD.json OUT` in Flink's environment: windowed queries over
impressions and clicks, in one statement set.

The last line printed is when the job began and ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.windows.flink_peer import environment, executed

COLUMNS = {
    "impressions": "ts BIGINT, id BIGINT, person BIGINT, site STRING, campaign INT, price BIGINT",
    "clicks": "ts BIGINT, impression BIGINT, cost BIGINT",
}


def run(workload: dict[str, Any], out: Path) -> tuple[float, float]:
    made = environment(out)
    for name, columns in COLUMNS.items():
        made.execute_sql(
            f"CREATE TABLE {name} ({columns}, rt AS TO_TIMESTAMP_LTZ(ts / 1000, 3), "
            # Its readers take files in any order: with less lateness it would drop rows.
            f"WATERMARK FOR rt AS rt - INTERVAL '{workload['ticks']}' SECOND) "
            f"WITH ('connector' = 'filesystem', 'path' = '{workload['folder']}/{name}', 'format' = 'csv')"
        )
    statements = made.create_statement_set()
    for name, text in workload["texts"].items():
        made.execute_sql(
            f"CREATE TABLE out_{name} (w BIGINT, k STRING, v DOUBLE) WITH ('connector' = 'filesystem', "
            f"'path' = '{out}/{name}', 'format' = 'csv')"
        )
        statements.add_insert_sql(f"INSERT INTO out_{name} {text}")
    return executed(statements)


if __name__ == "__main__":
    print(json.dumps(run(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))))
