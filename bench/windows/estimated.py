"""Pipelines with windowed queries of every class, for `bench/run estimates`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from bench.three_streams import query_sql, streams_sql, write_streams
from bench.windows.inputs import write_rows
from bench.windows.tpch_rows import Sizes, by_tick, tables
from bench.windows.workload import Aggregation, drawn
from bench.workloads.windowed_texts import declarations, windowed_texts

MINUTE = 60_000_000
ONE_STREAM = "CREATE STREAM r (ts TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY ts FROM parquet '{}/r' "
EACH_SECOND = "WINDOW 5 SECONDS SLIDE 1 SECOND"
FACTORIZED = f"SELECT count(*) AS n, sum(t.c) AS c FROM r, s, t WHERE r.a = s.a AND s.b = t.b {EACH_SECOND}"
BY_KEY = f"SELECT s.id % 100 AS k, count(*) AS n FROM r, s WHERE r.a = s.a GROUP BY s.id % 100 {EACH_SECOND}"
OF_JOIN = (
    "SELECT s.id % 100 AS k, count(*) AS n, max(t.c) AS c FROM r [RANGE 5 SECONDS], s [RANGE 5 SECONDS], "
    "t [RANGE 5 SECONDS] WHERE r.a = s.a AND s.b = t.b GROUP BY window(result_time(), '1 second'), s.id % 100"
)
MEDIAN = "SELECT median(c) AS m FROM t [TUMBLE {} SECONDS]"
RANKED = """SELECT c.k, c.n
FROM (SELECT id % 50 AS k, count(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY 1) c
WHERE c.n >= (
  SELECT max(o.n) FROM (SELECT count(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY id % 50) o)"""


@dataclass(frozen=True)
class Script:
    """A pipeline in SQL. `rows` are those of all streams in a tick."""

    text: str
    rows: int
    ticks: int


def _one_stream(folder: Path, scale: float, queries: str, rows: int = 50_000, keys: int = 5, ticks: int = 60) -> Script:
    rows = max(1, int(rows * scale))
    write_rows(folder / "in", ticks, rows, keys)
    return Script(ONE_STREAM.format(folder / "in") + "WITH (maxFilesPerTrigger = 1);\n" + queries, rows, ticks)


def _three_streams(
    folder: Path, scale: float, queries: dict[str, str], more: str = "", rows: int = 5_000, ticks: int = 60
) -> Script:
    rows = max(1, int(rows * scale))
    write_streams(folder / "in", ticks, rows, ticks_in_window=10)
    texts = "".join(f"CREATE QUERY {name} AS {text};\n" for name, text in queries.items())
    return Script(streams_sql(folder / "in") + texts + more, 3 * rows, ticks)


def _tpch(folder: Path, scale: float, names: tuple[str, ...], orders: int = 4_000, ticks: int = 30) -> Script:
    rows = tables(Sizes.of(5 * MINUTE, MINUTE, max(100, int(orders * scale))), 0, ticks * MINUTE)
    for number, pieces in enumerate(by_tick(rows, range(0, (ticks + 1) * MINUTE, MINUTE))):
        for name, piece in pieces.items():
            (folder / "in" / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(piece, folder / "in" / name / f"{number:06d}.parquet")
    texts = {name: text for name, text in windowed_texts("tpch", "5 MINUTES SLIDE 1 MINUTE").items() if name in names}
    used = {stream for text in texts.values() for stream in text.query.streams}
    script = declarations("tpch", folder / "in", " WITH (maxFilesPerTrigger = 1)", used)
    script += "".join(f"CREATE QUERY {name} AS {text.sql};\n" for name, text in texts.items())
    return Script(script, sum(len(table) for name, table in rows.items() if name in used) // ticks, ticks)


def _texts(aggregations: tuple[Aggregation, ...]) -> str:
    return "".join(each.watersmeet() for each in aggregations)


SLIDING = (
    Aggregation("sums", 10, 1, "SUM(x)"),
    Aggregation("means", 10, 1, "AVG(x)"),
    Aggregation("least", 5, 1, "MIN(x)"),
)
LENGTHS = tuple(Aggregation(f"q{length}", length, 1, "SUM(x)") for length in range(1, 21))
DISTINCT = "CREATE QUERY d AS SELECT count(DISTINCT k) AS n, sum(x) AS s FROM r [RANGE 5 SECONDS SLIDE 1 SECOND];\n"
WINDOWED: dict[str, Callable[..., Script]] = {
    "slices, 5 keys": partial(_one_stream, queries=_texts(SLIDING)),
    "slices, 1,000 keys": partial(_one_stream, queries=_texts(SLIDING), keys=1_000),
    "slices, 100,000 keys": partial(_one_stream, queries=_texts(SLIDING[:1]), keys=100_000, ticks=40),
    "slices, small ticks": partial(_one_stream, queries=_texts(SLIDING), rows=500, keys=50, ticks=120),
    "slices, 100 queries": partial(_one_stream, queries=_texts(drawn(100))),
    "slices, 20 lengths": partial(_one_stream, queries=_texts(LENGTHS), rows=5_000, keys=2_000),
    "distinct values": partial(_one_stream, queries=DISTINCT, keys=1_000),
    "factorized": partial(_three_streams, queries={"f": FACTORIZED, "g": BY_KEY}),
    "aggregates of a join": partial(_three_streams, queries={"j": OF_JOIN}),
    "Spark, each fifth tick": partial(_three_streams, queries={"m": MEDIAN.format(5)}, ticks=40),
    "Spark and tasks": partial(_three_streams, queries={"m": MEDIAN.format(2), "t": RANKED}, ticks=30),
    "tasks": partial(_three_streams, queries={"t": RANKED}, ticks=30),
    "joins and slices": partial(
        _three_streams, queries={"f": FACTORIZED, "j": OF_JOIN}, more=query_sql("q", 5), rows=10_000
    ),
    "TPC-H, slices and factorized": partial(_tpch, names=("q1", "q3", "q6", "q8", "q9", "q10", "q12", "q14")),
    "TPC-H, tasks": partial(_tpch, names=("q4", "q5", "q7", "q17", "q18", "q19")),
    "TPC-H, all": partial(_tpch, names=tuple(f"q{at}" for at in range(1, 20)), ticks=16),
}
