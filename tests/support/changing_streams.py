"""Streams R(a), S(a,b), T(b,c), U(c) whose keys change half-way: the data of CLASH, Fig. 8, scaled.

Every tick is one Parquet file for each stream; event time advances by a fixed length from tick to tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from tests.support.parquet_input import ONE_FILE_A_TICK, TIMESTAMP, write_file

COLUMNS = {"r": "a", "s": "ab", "t": "bc", "u": "c"}
EPOCH = 1_767_225_600_000_000  # 2026-01-01
WINDOW = 5_000_000
TICKS_IN_WINDOW = 5

Keys = Mapping[str, tuple[int, int]]  # for each column such as "s.b" the smallest key and how many there are


@dataclass(frozen=True)
class Changing:
    rows: Mapping[str, int]  # of each stream in a tick
    before: tuple[Keys, ...]  # kinds of rows, which are equally frequent
    after: tuple[Keys, ...]
    ticks: int
    change: int  # the first tick of the other kind

    def write(self, folder: Path) -> None:
        rng = np.random.default_rng(1)
        length = WINDOW // TICKS_IN_WINDOW
        for name, columns in COLUMNS.items():
            for tick in range(self.ticks):
                count, kinds = self.rows[name], self.before if tick < self.change else self.after
                kind = rng.integers(0, len(kinds), count)
                times = EPOCH + np.sort(rng.integers(tick * length, (tick + 1) * length, count))
                data = {"ts": pa.array(times, TIMESTAMP), "id": np.arange(count) + tick * count}
                for column in columns:
                    first, many = np.array([keys[f"{name}.{column}"] for keys in kinds]).T
                    data[column] = first[kind] + rng.integers(0, many[kind])
                write_file(folder / name, tick, pa.table(data))


def script(folder: Path) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, {', '.join(f'{column} BIGINT' for column in columns)}) "
        f"TIMESTAMP BY ts FROM parquet '{folder / name}' {ONE_FILE_A_TICK};\n"
        for name, columns in COLUMNS.items()
    )
    window = f"[RANGE {WINDOW // 1_000_000} SECONDS]"
    listed = ", ".join(f"{name} {window}" for name in COLUMNS)
    selected = ", ".join(f"{name}.id AS {name}" for name in COLUMNS)
    return f"{streams}CREATE QUERY q AS SELECT {selected} FROM {listed} WHERE r.a = s.a AND s.b = t.b AND t.c = u.c;\n"


def right_number(folder: Path) -> int:
    """How many results there are, by DuckDB."""
    # S ⋈ T first, which is never large here; left alone, DuckDB may begin with the joins that explode.
    near = f"INTERVAL {WINDOW} MICROSECOND"
    (found,) = duckdb.execute(f"""
        WITH st AS MATERIALIZED (
            SELECT a, c, least(s.ts, t.ts) AS low, greatest(s.ts, t.ts) AS high
            FROM '{folder}/s/*.parquet' s JOIN '{folder}/t/*.parquet' t USING (b)
            WHERE greatest(s.ts, t.ts) - least(s.ts, t.ts) <= {near}
        ), stu AS MATERIALIZED (
            SELECT a, least(low, u.ts) AS low, greatest(high, u.ts) AS high
            FROM st JOIN '{folder}/u/*.parquet' u USING (c)
            WHERE greatest(high, u.ts) - least(low, u.ts) <= {near}
        )
        SELECT count(*) FROM stu JOIN '{folder}/r/*.parquet' r USING (a)
        WHERE greatest(high, r.ts) - least(low, r.ts) <= {near}
    """).fetchall()
    return int(found[0])


def explosion(rows: int, ticks: int, change: int, partners: int = 100) -> Changing:
    """Fig. 8a: about one partner for each probe; then S finds many in R and none in T, T many in U and none in S."""
    held = rows * TICKS_IN_WINDOW
    calm = {f"{name}.{column}": (0, held) for name, columns in COLUMNS.items() for column in columns}
    few = (0, max(1, held // partners))
    wild = {"r.a": few, "s.a": few, "s.b": (20 * held, held), "t.b": (10 * held, held), "t.c": few, "u.c": few}
    return Changing(dict.fromkeys(COLUMNS, rows), (calm,), (wild,), ticks, change)


def small_intermediate(fast: int, slow: int, ticks: int, change: int, partners: int = 10) -> Changing:
    """Fig. 8b: R is fast, the others are slow, and S ⋈ T ⋈ U is large; then it gets tiny, and R meets S often.

    What makes it large are rows of a second kind, which join each other and no row of R: there are few results."""
    held = slow * TICKS_IN_WINDOW
    some = {
        "r.a": (0, 20 * held),
        "s.a": (0, 20 * held),
        "s.b": (0, held),
        "t.b": (0, held),
        "t.c": (1000, 20 * held),
        "u.c": (1000, 20 * held),
    }
    crowd = (10**6, held // 50)
    many = {**some, "s.a": (10**9, held), "s.b": crowd, "t.b": crowd, "t.c": (0, 40), "u.c": (0, 40)}
    few = (0, max(1, held // partners))
    none = (10**7, 4)
    tiny = ({**some, "r.a": few, "s.a": few, "u.c": none}, {**many, "r.a": few, "u.c": none})
    return Changing({"r": fast, "s": slow, "t": slow, "u": slow}, (some, many), tiny, ticks, change)
