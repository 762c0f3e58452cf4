"""Joins of sixteen aliases in every shape, planned as a start plans them, against DuckDB."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.support.answers import stored_answers
from tests.support.parquet_input import append_file, seconds_after_epoch
from watersmeet import Engine

ALIASES = 16
STREAMS = ("s0", "s1", "s2", "s3")
WINDOW = 10  # seconds
END = 1000  # second of the last rows: every absence is decided
Rows = list[tuple[int, int, int]]  # (second, id, k); a further column m is k + 100


def pieces(stream: int) -> list[Rows]:
    """By tick. Keys 0 to 2 are in all streams, twice in some; 3 is outside of the window in one; 4 is not in all."""
    first = [(key, key, key) for key in range(3)]
    second = [(3, 10, 0)] if stream == 1 else [(4, 11, 2)] if stream == 2 else []
    second += [(30 if stream == 3 else 5, 12, 3)] + ([(5, 13, 4)] if stream else [])
    return [first, second, [(END, 99, 1000 + stream)]]


SHAPES = {
    "star": [f"t0.{'km'[at % 2]} = t{at}.{'km'[at % 2]}" for at in range(1, ALIASES)],
    "chain": [f"t{at}.k = t{at + 1}.k" for at in range(ALIASES - 1)],
    "clique": [f"t{one}.k = t{other}.k" for one, other in itertools.combinations(range(ALIASES), 2)],
}
SELF_STAR = [f"u0.k = u{at}.k" for at in range(1, ALIASES)]
PRESERVED = [f"v0.k = v{at}.k" for at in range(1, ALIASES - 1)]
OF = {
    **{f"t{at}": STREAMS[at % len(STREAMS)] for at in range(ALIASES)},
    **{f"u{at}": "s3" for at in range(ALIASES)},
    **{f"v{at}": STREAMS[at % 3] for at in range(ALIASES)},
}


def _text(aliases: list[str], conditions: list[str], oracle: bool) -> str:
    window = "" if oracle else f"[RANGE {WINDOW} SECONDS]"
    tables = ", ".join(f"{OF[alias]} {window} AS {alias}" for alias in aliases)
    outputs = ", ".join(f"{alias}.id AS {alias}_id" for alias in aliases)
    times = ", ".join(f"{alias}.ts" for alias in aliases)
    within = [f"greatest({times}) <= least({times}) + INTERVAL {WINDOW} SECONDS"] if oracle else []
    return f"SELECT {outputs} FROM {tables} WHERE {' AND '.join([*conditions, *within])}"


def _leaf(kind: str, oracle: bool) -> str:
    """Fifteen aliases and a leaf."""
    inner = _text([f"v{at}" for at in range(ALIASES - 1)], PRESERVED, oracle)
    leaf = f"s3{'' if oracle else f' [RANGE {WINDOW} SECONDS]'} AS u"
    if oracle:
        partner = f"u.k = v0.k AND abs(epoch(u.ts) - epoch(v0.ts)) <= {WINDOW}"
        exists = f"EXISTS (SELECT 1 FROM {leaf} WHERE {partner})"
        return f"{inner} AND {'' if kind == 'SEMI' else 'NOT '}{exists}"
    selected, where = inner.split(" WHERE ")
    return f"{selected} {kind} JOIN {leaf} ON u.k = v0.k WHERE {where}"


def queries(oracle: bool) -> dict[str, str]:
    members = [f"t{at}" for at in range(ALIASES)]
    texts = {name: _text(members, conditions, oracle) for name, conditions in SHAPES.items()}
    texts["self_star"] = _text([f"u{at}" for at in range(ALIASES)], [*SELF_STAR, "u0.k < 1000"], oracle)
    return texts | {kind.lower(): _leaf(kind, oracle) for kind in ("SEMI", "ANTI")}


@pytest.mark.parametrize("partitions", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_every_shape_gives_the_oracles_results(tmp_path: Path, partitions: int) -> None:
    """Some are declared before the start, the others are added after a tick, beside them."""
    with Engine(home=tmp_path / "home", executor="local", partitions=partitions) as engine:
        for stream in STREAMS:
            (tmp_path / stream).mkdir()
            engine.sql(
                f"CREATE STREAM {stream} (ts TIMESTAMP, id BIGINT, k BIGINT, m BIGINT) TIMESTAMP BY ts "
                f"LATENESS INTERVAL '1' MINUTE FROM parquet '{tmp_path / stream}'"
            )
        asked = queries(oracle=False)
        for name in ("star", "clique", "self_star", "anti"):
            engine.query(name, asked.pop(name))
        expected = _written(tmp_path, 0)
        engine.run_once()
        for name, text in asked.items():
            engine.query(name, text, backfill=True)
        for tick in (1, 2):
            expected = _written(tmp_path, tick)
            engine.run_once()
        assert not engine.newest.suspended
    assert all(expected.values()), "a query without results proves nothing"
    for name, answer in expected.items():
        assert stored_answers(tmp_path / "home" / "results" / name) == answer, name


def _written(folder: Path, tick: int) -> dict[str, Counter[tuple[object, ...]]]:
    """What the queries have to answer once a further file of each stream is there."""
    for at, stream in enumerate(STREAMS):
        if rows := pieces(at)[tick]:
            seconds, ids, keys = zip(*rows, strict=True)
            columns = {"id": ids, "k": keys, "m": [key + 100 for key in keys]}
            data = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
            append_file(folder / stream, pa.table({"ts": seconds_after_epoch(seconds), **data}))
    connection = duckdb.connect()
    for stream in STREAMS:
        connection.execute(f"CREATE TABLE {stream} AS FROM '{folder / stream}/*.parquet'")
    return {name: Counter(connection.execute(text).fetchall()) for name, text in queries(oracle=True).items()}
