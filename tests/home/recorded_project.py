"""A project with queries of every kind, of which homes were recorded: `tests/home/recorded/*.tar.gz`.

    python -m tests.home.recorded_project NAME PARTITIONS      records another one

A version that cannot resume a home of an earlier one has to say so in the change log, and to reject it with words; it
must not begin open windows anew, forget rows of a join, or write a result twice.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa

from tests.support.parquet_input import append_file, seconds_after_epoch
from watersmeet import Engine
from watersmeet.home.manifest import load_newest

RECORDED = Path(__file__).parent / "recorded"
TICKS = 4  # that were recorded
SECONDS = 10  # of event time in a tick
ENDLESS = "endless"  # is suspended

STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k INT, {name}v BIGINT, s STRING) "
    f"TIMESTAMP BY ts LATENESS 3 SECONDS FROM parquet 'data/{name}';\n"
    for name in "rtu"
)
SLIDING, TUMBLING = "[RANGE 12 SECONDS SLIDE 4 SECONDS]", "[TUMBLE 15 SECONDS]"


@dataclass(frozen=True)
class Asked:
    sql: str
    oracle: str
    into: str = ""


def _near(*pairs: str, seconds: int = 8) -> str:
    return " AND ".join(f"abs(epoch({pair[0]}.ts) - epoch({pair[1]}.ts)) <= {seconds}" for pair in pairs)


def _windows(length: int, slide: int, select: str, tables: dict[str, str], rest: str) -> str:
    """All windows with rows; `win` begins a window."""
    inside = " AND ".join(f"epoch({alias}.ts) >= win AND epoch({alias}.ts) < win + {length}" for alias in tables)
    listed = ", ".join(f"{table} {alias}" for alias, table in tables.items())
    first = "epoch(TIMESTAMP '2026-01-01')::BIGINT"
    starts = f"(SELECT unnest(range({first} - {first} % {slide} - {length * slide}, {first} + 1000, {slide})) AS win)"
    return f"SELECT make_timestamp(win * 1000000), {select} FROM {starts}, {listed} WHERE {inside} {rest}"


_PAIR = "FROM r [RANGE 8 SECONDS] r, t [RANGE 8 SECONDS] t"
QUERIES = {
    "pairs": Asked(
        f"SELECT r.rv, t.tv {_PAIR} WHERE r.k = t.k", f"SELECT rv, tv FROM r, t WHERE r.k = t.k AND {_near('rt')}"
    ),
    "theta": Asked(
        f"SELECT r.rv, t.s {_PAIR} WHERE r.k = t.k AND r.rv % 7 < t.tv % 7",
        f"SELECT rv, t.s FROM r, t WHERE r.k = t.k AND r.rv % 7 < t.tv % 7 AND {_near('rt')}",
    ),
    "strings": Asked(
        "SELECT r.rv, u.uv FROM r [RANGE 8 SECONDS] r, u [RANGE 8 SECONDS] u WHERE r.s = u.s",
        f"SELECT rv, uv FROM r, u WHERE r.s = u.s AND {_near('ru')}",
    ),
    "chain": Asked(
        f"SELECT r.rv, t.tv, u.uv {_PAIR}, u [RANGE 8 SECONDS] u WHERE r.k = t.k AND t.s = u.s",
        f"SELECT rv, tv, uv FROM r, t, u WHERE r.k = t.k AND t.s = u.s AND {_near('rt', 'ru', 'tu')}",
    ),
    "absent": Asked(
        "SELECT r.rv FROM r [RANGE 8 SECONDS] r ANTI JOIN u [RANGE 8 SECONDS] u ON r.k = u.k AND r.s = u.s",
        f"SELECT rv FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE r.k = u.k AND r.s = u.s AND {_near('ru')})",
    ),
    "left": Asked(
        "SELECT t.tv, u.uv FROM t [RANGE 8 SECONDS] t LEFT JOIN u [RANGE 8 SECONDS] u ON t.k = u.k AND t.s = u.s",
        f"SELECT tv, uv FROM t LEFT JOIN u ON t.k = u.k AND t.s = u.s AND {_near('tu')}",
    ),
    "sums": Asked(
        f"SELECT window_start, k, sum(rv) AS a, count(*) AS b, min(s) AS c FROM r {SLIDING} GROUP BY k",
        _windows(12, 4, "k, sum(rv)::BIGINT, count(*), min(s)", {"r": "r"}, "GROUP BY win, k"),
    ),
    "maxima": Asked(
        f"SELECT window_start, s, max(tv) AS a, count(DISTINCT k) AS b FROM t {TUMBLING} GROUP BY s",
        _windows(15, 15, "s, max(tv), count(DISTINCT k)", {"t": "t"}, "GROUP BY win, s"),
    ),
    "totals": Asked(
        f"SELECT window_start, sum(uv) AS a FROM u {SLIDING}",
        _windows(12, 4, "sum(uv)::BIGINT", {"u": "u"}, "GROUP BY win"),
    ),
    "factorized": Asked(
        f"SELECT window_start, x.k, count(*) AS a, sum(y.tv) AS b "
        f"FROM r {SLIDING} x JOIN t {SLIDING} y ON x.k = y.k GROUP BY x.k",
        _windows(12, 4, "x.k, count(*), sum(y.tv)::BIGINT", {"x": "r", "y": "t"}, "AND x.k = y.k GROUP BY win, x.k"),
    ),
    "of_join": Asked(
        f"SELECT window_start, t.s, count(*) AS a, max(r.rv) AS b {_PAIR} WHERE r.k = t.k "
        "GROUP BY t.s, window(result_time(), '5 seconds')",
        "SELECT make_timestamp((floor(epoch(greatest(r.ts, t.ts)) / 5) * 5000000)::BIGINT) AS win, t.s, count(*), "
        f"max(rv) FROM r, t WHERE r.k = t.k AND {_near('rt')} GROUP BY win, t.s",
    ),
    "counted": Asked(
        f"SELECT r.rv, t.tv {_PAIR} WHERE r.s = t.s",
        f"SELECT rv, tv FROM r, t WHERE r.s = t.s AND {_near('rt')}",
        "INTO count",
    ),
    "counted_windows": Asked(
        f"SELECT window_start, k, sum(tv) AS a FROM t {SLIDING} GROUP BY k",
        _windows(12, 4, "k, sum(tv)::BIGINT", {"t": "t"}, "GROUP BY win, k"),
        "INTO count",
    ),
}
SCRIPT = STREAMS + "".join(f"CREATE QUERY {name} {asked.into} AS {asked.sql};\n" for name, asked in QUERIES.items())
SCRIPT += f"""CREATE QUERY {ENDLESS} AS SELECT r.rv, t.tv, u.uv
FROM r [RANGE 9 SECONDS] r CROSS JOIN t [RANGE 9 SECONDS] t CROSS JOIN u [RANGE 9 SECONDS] u;
"""


def feed(project: Path, tick: int) -> None:
    """A file of each stream, always the same. No row is late, whatever came before."""
    for name in "rtu":
        random = Random(f"{name}{tick}")
        count = 12
        columns = {
            "ts": seconds_after_epoch([tick * SECONDS + random.randrange(SECONDS * 4) / 4 for _ in range(count)]),
            "k": pa.array([random.choice([None, 0, 1, 2, 3]) for _ in range(count)], pa.int32()),
            f"{name}v": pa.array([tick * 100 + at for at in range(count)], pa.int64()),
            "s": pa.array([random.choice([None, "a", "b", "é", "a longer value"]) for _ in range(count)]),
        }
        append_file(project / "data" / name, pa.table(columns))


def live(project: Path, partitions: int, flush: bool = False) -> None:
    """An engine starts, processes what has arrived, and stops."""
    engine = Engine(
        home=project / "home",
        executor="local",
        partitions=partitions,
        max_matches=2000,
        searcher="left-deep",  # so that results are materialized
        adaptive="off",
    )
    engine.sql(SCRIPT, project / "pipeline.sql")
    with engine:
        engine.run_once(flush=flush)


def check(project: Path) -> None:
    """After a flush: the results equal DuckDB's over all input."""
    home = project / "home"
    assert set(load_newest(home).suspended) == {ENDLESS}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in "rtu":
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{project}/data/{name}/*.parquet')")
        counts = connection.execute(
            f"SELECT query, sum(matches) FROM read_parquet('{home}/counts/*.parquet') GROUP BY query"
        ).fetchall()
        for name, asked in QUERIES.items():
            wanted = Counter(connection.execute(asked.oracle).fetchall())
            assert wanted, name
            if asked.into:
                assert dict(counts)[name] == wanted.total(), name
                continue
            found = connection.execute(f"SELECT * FROM read_parquet('{home}/results/{name}/*.parquet')").fetchall()
            assert Counter(map(_plain, found)) == Counter(map(_plain, wanted.elements())), name


def _plain(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row)


def record(name: str, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / name
        for tick in range(TICKS):
            feed(project, tick)
            live(project, partitions)
        manifest = load_newest(project / "home")
        assert manifest.materialized and manifest.windows and set(manifest.suspended) == {ENDLESS}
        with tarfile.open(RECORDED / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(project, name)


if __name__ == "__main__":
    record(sys.argv[1], int(sys.argv[2]))
