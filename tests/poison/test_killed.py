"""A task is killed each time that it works for one query, as the system does where memory is short: this query is
suspended, alone, and the others have the results of DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

from tests.support.parquet_input import write_file
from tests.support.processes import watersmeet_run
from tests.support.waiting import PATIENCE
from watersmeet.home.manifest import load_newest

SECOND = 1_000_000
STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v BIGINT) TIMESTAMP BY ts FROM parquet '{{0}}/{name}' "
    "WITH (maxFilesPerTrigger = 1);\n"
    for name in ("r", "t")
)
WINDOW = "[RANGE 20 SECONDS SLIDE 10 SECONDS]"
QUERIES = {
    "sums": f"SELECT window_start AS w, k, sum(v) AS s FROM r {WINDOW} GROUP BY k",
    "greatest": f"SELECT window_start AS w, k, max(v) AS s FROM r {WINDOW} GROUP BY k HAVING count(*) > 1",
    "joined": f"SELECT window_start AS w, x.k AS k, count(*) AS s FROM r {WINDOW} x JOIN t {WINDOW} y ON x.k = y.k "
    "GROUP BY x.k",
    "pairs": "SELECT x.v AS a, y.v AS b FROM r [RANGE 5 SECONDS] x, t [RANGE 5 SECONDS] y WHERE x.k = y.k",
}
HOT = {
    "windows": f"SELECT k, min(v) AS s FROM r {WINDOW} GROUP BY k",
    "join": "SELECT x.v AS a FROM r [RANGE 5 SECONDS] x, t [RANGE 5 SECONDS] y WHERE x.k = y.k AND x.v > y.v",
}
TICKS = 3


def rows(random: Random, tick: int) -> pa.Table:
    times = [(40 * tick + random.randint(0, 30)) * SECOND for _ in range(30)]
    return pa.table(
        {
            "ts": pa.array(sorted(times), pa.timestamp("us", "UTC")),
            "k": pa.array([random.randint(1, 6) for _ in times], pa.int32()),
            "v": pa.array([random.randrange(1000) for _ in times], pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("hot", "options"),
    [
        ("windows", ()),
        pytest.param("join", (), marks=pytest.mark.thorough),
        pytest.param("windows", ("residents=0", "partitions=3"), marks=pytest.mark.thorough),
    ],
)
def test_only_the_hot_query_is_suspended(tmp_path: Path, hot: str, options: tuple[str, ...]) -> None:
    random = Random(hot)
    written = {name: [rows(random, tick) for tick in range(TICKS)] for name in ("r", "t")}
    for name, tables in written.items():
        for tick, table in enumerate(tables):
            write_file(tmp_path / name, tick, table)
    script = tmp_path / "pipeline.sql"
    queries = {**QUERIES, "hot": HOT[hot]}
    created = "".join(f"CREATE QUERY {name} AS {sql};\n" for name, sql in queries.items())
    script.write_text(STREAMS.format(tmp_path) + created)
    home = tmp_path / "home"
    sets = [
        part
        for each in ("spark.python.daemon.module=tests.support.deadly_daemon", *options)
        for part in ("--set", each)
    ]
    with watersmeet_run(script, "--once", "--flush", "--home", home, *sets, log=tmp_path / "log") as run:
        assert run.process.wait(5 * PATIENCE) == 0, run.said()
    suspended = load_newest(home).suspended
    assert suspended.keys() == {"hot"}, run.said()
    assert "task_memory" in suspended["hot"].reason
    with duckdb.connect() as oracle:
        oracle.execute("SET TimeZone = 'UTC'")
        for name, tables in written.items():
            oracle.register(f"all_{name}", pa.concat_tables(tables))
            oracle.execute(f"CREATE TABLE {name} AS SELECT epoch_us(ts) AS ts, k, v FROM all_{name}")
        starts = f"SELECT unnest(range(-20 * {SECOND}, 200 * {SECOND}, 10 * {SECOND})) AS w"
        inside = "{0}.ts >= w AND {0}.ts < w + " + str(20 * SECOND)
        expected = {
            "sums": f"SELECT w, k, sum(v) FROM r, ({starts}) WHERE {inside.format('r')} GROUP BY ALL",
            "greatest": f"SELECT w, k, max(v) FROM r, ({starts}) WHERE {inside.format('r')} GROUP BY ALL "
            "HAVING count(*) > 1",
            "joined": f"SELECT w, x.k, count(*) FROM r x JOIN t y ON x.k = y.k, ({starts}) "
            f"WHERE {inside.format('x')} AND {inside.format('y')} GROUP BY ALL",
            "pairs": f"SELECT x.v, y.v FROM r x, t y WHERE x.k = y.k AND abs(x.ts - y.ts) <= 5 * {SECOND}",
        }
        for name, sql in expected.items():
            found = f"SELECT * FROM read_parquet('{home}/results/{name}/*.parquet')"
            if name != "pairs":
                found = f"SELECT epoch_us(w), k, s FROM ({found})"
            for one, other in ((found, sql), (sql, found)):
                assert oracle.execute(f"({one}) EXCEPT ALL ({other})").fetchall() == [], name
