"""The workload of the AJoin paper (Fig. 14): six attributes, joins that differ in attributes, filters and windows.

Attributes are uniform in 0 … 499. A query has the streams of the pattern query a.x0 = b.x0 and, at 50 % similarity
(Eq. 3: two common sources, one common join attribute), one of its two join attributes; the other is another one. Each
stream has a filter `attribute op constant`; the window is 1, 2 or 3 seconds.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EPOCH = 1_767_225_600_000_000  # 2026-01-01
ATTRIBUTES = 6
ATR_MAX = 500
STREAMS = ("a", "b")


def write_streams(folder: Path, ticks: int, rows: int, tick_seconds: float = 1.0) -> None:
    """One file for each tick and stream, `rows` rows each."""
    length = int(tick_seconds * 1_000_000)
    for seed, name in enumerate(STREAMS):
        rng = np.random.default_rng(seed)
        (folder / name).mkdir(parents=True, exist_ok=True)
        for tick in range(ticks):
            times = EPOCH + np.sort(rng.integers(tick * length, (tick + 1) * length, rows))
            data = {"ts": pa.array(times, pa.timestamp("us", tz="UTC"))}
            data |= {f"x{number}": rng.integers(0, ATR_MAX, rows) for number in range(ATTRIBUTES)}
            pq.write_table(pa.table(data), folder / name / f"{tick:06d}.parquet")


def streams_sql(folder: Path) -> str:
    columns = ", ".join(f"x{number} BIGINT" for number in range(ATTRIBUTES))
    return "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, {columns}) TIMESTAMP BY ts "
        f"FROM parquet '{folder / name}' WITH (maxFilesPerTrigger = 1);\n"
        for name in STREAMS
    )


def selects(count: int, seed: int = 1, filters: bool = True) -> list[str]:
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        other = chance.randrange(1, ATTRIBUTES)
        left, right = chance.choice(((0, other), (other, 0)))
        conditions = [f"a.x{left} = b.x{right}"]
        for name in STREAMS if filters else ():
            operator = chance.choice(("=", ">", "<", ">=", "<="))
            conditions.append(f"{name}.x{chance.randrange(ATTRIBUTES)} {operator} {chance.randrange(ATR_MAX)}")
        made.append(f"SELECT * FROM a, b WHERE {' AND '.join(conditions)} WINDOW {chance.randint(1, 3)} SECONDS")
    return made


def queries_sql(count: int) -> str:
    return "".join(f"CREATE QUERY q{number} INTO count AS {text};\n" for number, text in enumerate(selects(count)))


def oracle(folder: Path, texts: list[str]) -> list[int]:
    """The matches of each query, by DuckDB over the whole input."""
    import duckdb

    connection = duckdb.connect()
    for name in STREAMS:
        second = "epoch_us(ts) // 1_000_000 AS second"  # joined too, or far more pairs than results would be tested
        connection.execute(f"CREATE TABLE {name} AS SELECT *, {second} FROM '{folder / name}/*.parquet'")
    counts = []
    for text in texts:
        conditions, seconds = text.split(" WHERE ")[1].removesuffix(" SECONDS").split(" WINDOW ")
        near = f"abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {int(seconds) * 1_000_000}"
        shifted = f"(SELECT a.*, second + d.d AS near FROM a, range(-{seconds}, {seconds} + 1) AS d(d)) AS a"
        found = connection.execute(
            f"SELECT count(*) FROM {shifted}, b WHERE a.near = b.second AND {conditions} AND {near}"
        ).fetchone()
        counts.append(found[0] if found else 0)
    return counts
