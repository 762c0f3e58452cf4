"""Random windowed queries over two streams, each for Watersmeet and for DuckDB, and random rows for them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa

from tests.support.windowed import SECOND, Asked

COLUMNS = {
    "r": (
        ("k", "INT", pa.int32()),
        ("v", "INT", pa.int32()),
        ("d", "DOUBLE", pa.float64()),
        ("s", "STRING", pa.string()),
    ),
    "t": (("k", "INT", pa.int32()), ("w", "BIGINT", pa.int64())),
}
GRIDS = ((10, 10), (10, 5), (12, 5), (9, 3), (20, 1), (7, 2))
KEYS = ("k", "s", "v % 2", "k IS NULL")
AGGREGATES = (
    "count(*)",
    "count(v)",
    "sum(v)",
    "sum(d)",
    "min(s)",
    "max(d)",
    "avg(v)",
    "min(v) FILTER (WHERE v > 1)",
    "count(*) FILTER (WHERE k = 1)",
    "sum(CASE WHEN v > 0 THEN v ELSE 0 END)",
    "max(v) - min(v)",
    "stddev_samp(d)",
    "count(DISTINCT v)",
    "count(DISTINCT s) FILTER (WHERE v > 0)",
    "sum(DISTINCT v) FILTER (WHERE k = 1)",
    "avg(DISTINCT d)",
    "sum(DISTINCT d)",
)
FILTERS = ("", "", "v > 0", "k = 1 OR s = 'a'", "d < 1.5", "v > 100")


def declaration(lateness: int, retained: bool = False, folder: object = "nowhere") -> str:
    retain = " RETAIN UNBOUNDED" if retained else ""
    return "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, {', '.join(f'{column} {kind}' for column, kind, _ in columns)}) "
        f"TIMESTAMP BY ts LATENESS INTERVAL '{lateness}' SECONDS AHEAD UNBOUNDED{retain} "
        f"FROM parquet '{folder}/{name}';"
        for name, columns in COLUMNS.items()
    )


def rows(random: Random, stream: str, now: int, spread: int) -> pa.Table:
    """Some rows around a time in seconds."""
    count = random.choice([0, 1, 3, 9])
    values: dict[str, Callable[[], object]] = {
        "INT": lambda: random.choice([None, 0, 1, 2, 3]),
        "BIGINT": lambda: random.choice([None, 0, 5, 2**40]),
        "DOUBLE": lambda: random.choice([None, -0.5, 0.125, 2.0]),
        "STRING": lambda: random.choice([None, "", "a", "é", "a longer value"]),
    }
    times = [(now + random.randint(-spread, spread)) * SECOND + random.choice([0, 1, 999_999]) for _ in range(count)]
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC"))}
    for name, kind, arrow in COLUMNS[stream]:
        columns[name] = pa.array([values[kind]() for _ in range(count)], arrow)
    return pa.table(columns)


def one_stream(random: Random) -> Asked:
    """Aggregates of one stream, by keys or over all of it."""
    length, slide = random.choice(GRIDS)
    keys = random.sample(KEYS, random.randint(0, 2))
    wanted = [*keys, *random.sample(AGGREGATES, random.randint(1, 3))]
    where = random.choice(FILTERS)
    condition = f" WHERE {where}" if where else ""
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = " HAVING count(*) > 1" if keys and random.random() < 0.3 else ""
    listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(wanted))
    ours = f"SELECT window_start, {listed} FROM r [RANGE {length} SECONDS SLIDE {slide} SECONDS]{condition}{grouped}"
    theirs = f"SELECT {{start}} AS window_start, {listed} FROM r{condition}{grouped}"
    return Asked(ours + having, theirs + having)


JOINED = (
    "count(*)",
    "count(y.w)",
    "sum(x.v)",
    "sum(y.w)",
    "max(y.w)",
    "min(x.s)",
    "avg(x.v)",
    "sum(x.d) FILTER (WHERE y.w > 0)",
)
JOINED_KEYS = ("x.k", "x.s", "y.w", "x.v % 2")


def two_streams(random: Random) -> Asked:
    """Aggregates of a join of two streams, or of three aliases over them."""
    length, slide = random.choice(GRIDS)
    keys = random.sample(JOINED_KEYS, random.randint(0, 2))
    wanted = [*keys, *random.sample(JOINED, random.randint(1, 3))]
    listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(wanted))
    where = random.choice(["", "", " WHERE x.v > 0", " WHERE y.w IS NOT NULL"])
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    grouped += " HAVING count(*) > 1" if keys and random.random() < 0.3 else ""
    third = random.random() < 0.4
    window = f" [RANGE {length} SECONDS SLIDE {slide} SECONDS]"

    def joined(bracket: str) -> str:
        more = f" JOIN r{bracket} z ON z.k = y.k" if third else ""
        return f"FROM r{bracket} x JOIN t{bracket} y ON x.k = y.k{more}{where}{grouped}"

    return Asked(
        f"SELECT window_start, {listed} {joined(window)}", f"SELECT {{start}} AS window_start, {listed} {joined('')}"
    )


def continuous(random: Random) -> Asked:
    """Aggregates of the results of a continuous join, in the windows of their newest members."""
    length, span = random.choice([5, 10]), random.choice([3, 8])
    keys = random.sample(JOINED_KEYS, random.randint(0, 2))
    wanted = [*keys, *random.sample(JOINED, random.randint(1, 3))]
    listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(wanted))
    grouped = ", ".join([*keys, f"window(result_time(), '{length} seconds')"])
    ours = f"FROM r [RANGE {span} SECONDS] x JOIN t [RANGE {span} SECONDS] y ON x.k = y.k GROUP BY {grouped}"
    newest = "greatest(epoch_us(x.ts), epoch_us(y.ts))"
    near = f"abs(epoch_us(x.ts) - epoch_us(y.ts)) <= {span * SECOND}"
    inside = f"{newest} >= {{first}} AND {newest} < {{last}}"
    by = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) > 0"
    theirs = f"FROM all_r x JOIN all_t y ON x.k = y.k WHERE {near} AND {inside}{by}"
    return Asked(f"SELECT window_start, {listed} {ours}", f"SELECT {{start}} AS window_start, {listed} {theirs}")
