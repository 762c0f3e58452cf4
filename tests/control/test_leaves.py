"""Queries with leaves in an engine that runs: added, backfilled, suspended, resumed, dropped, and after a restart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.support.answers import stored_answers
from tests.support.parquet_input import seconds_after_epoch, write_file
from watersmeet import Engine, Sink

UNPAID = "SELECT a.id FROM a [RANGE 5 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 2 SECONDS] WHERE a.k = b.k)"
LEFT = "SELECT a.id, b.id AS other FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 2 SECONDS] ON a.k = b.k"
PAID = "SELECT a.id FROM a [RANGE 5 SECONDS] SEMI JOIN b [RANGE 2 SECONDS] ON a.k = b.k"


def put(folder: Path, stream: str, tick: int, rows: list[tuple[int, int, int]]) -> None:
    """A file with rows of event time, id and key."""
    times, ids, keys = zip(*rows, strict=True)
    table = {"ts": seconds_after_epoch(times), "id": pa.array(ids, pa.int64()), "k": pa.array(keys, pa.int64())}
    write_file(folder / stream, tick, pa.table(table))


def engine_on(folder: Path) -> Engine:
    engine = Engine(home=folder / "home", executor="local")
    for stream in ("a", "b"):
        (folder / stream).mkdir(exist_ok=True)
        engine.sql(
            f"CREATE STREAM {stream} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts "
            f"LATENESS INTERVAL '0' SECOND RETAIN UNBOUNDED FROM parquet '{folder / stream}'"
        )
    return engine


def found(folder: Path, query: str) -> list[tuple[object, ...]]:
    return sorted(stored_answers(folder / "home" / "results" / query).elements(), key=str)


def test_queries_with_leaves_come_and_go(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        engine.query("unpaid", UNPAID)
        put(tmp_path, "a", 0, [(1, 1, 1), (2, 2, 2), (3, 3, 3)])
        put(tmp_path, "b", 0, [(2, 10, 1)])
        engine.run_once()
        assert found(tmp_path, "unpaid") == []  # undecided
        engine.query("joined", LEFT, backfill=True)
        engine.query("paid", PAID, backfill=True)
        put(tmp_path, "b", 1, [(8, 11, 7)])
        engine.run_once()
        assert found(tmp_path, "unpaid") == [(2,)]
        assert found(tmp_path, "joined") == [(1, 10), (2, None)]
        assert found(tmp_path, "paid") == [(1,)]
        assert "a without a partner in b on a.k = b.k" in engine.explain()
    with engine_on(tmp_path) as engine:
        engine.query("unpaid", UNPAID)
        engine.drop("unpaid")
        put(tmp_path, "a", 2, [(9, 4, 7), (10, 5, 8)])
        put(tmp_path, "b", 2, [(10, 12, 2), (20, 13, 2)])
        engine.run_once()
        assert found(tmp_path, "unpaid") == [(2,)]
        assert found(tmp_path, "joined") == [(1, 10), (2, None), (3, None), (4, 11), (5, None)]
        assert found(tmp_path, "paid") == [(1,), (4,)]


def test_a_suspended_query_misses_what_is_decided_meanwhile_and_nothing_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    with engine_on(tmp_path) as engine:
        engine.query("unpaid", UNPAID, Sink(path=str(outside)))
        put(tmp_path, "a", 0, [(1, 1, 1), (7, 2, 2), (20, 3, 3), (21, 4, 4)])
        put(tmp_path, "b", 0, [(2, 10, 9)])
        engine.run_once()
        outside.rename(tmp_path / "lost")
        outside.write_text("in the way")
        put(tmp_path, "b", 1, [(15, 11, 9)])  # decides 1 and 2: they cannot be written
        engine.run_once()
        (query,) = engine.stats().queries
        assert query.suspended is not None
        put(tmp_path, "b", 2, [(22, 12, 4)])
        engine.run_once()
        outside.unlink()
        (tmp_path / "lost").rename(outside)
        engine.resume("unpaid")
        put(tmp_path, "b", 3, [(40, 13, 9)])  # 4 has found a partner while the query was suspended
        engine.run_once()
    assert sorted(stored_answers(outside)) == [(3,)]


def test_a_flush_decides_absences_once(tmp_path: Path) -> None:
    with engine_on(tmp_path) as engine:
        engine.query("unpaid", UNPAID)
        engine.query("joined", LEFT)
        put(tmp_path, "a", 0, [(1, 1, 1), (2, 2, 2)])
        put(tmp_path, "b", 0, [(2, 10, 1)])
        engine.run_once(flush=True)
    assert found(tmp_path, "unpaid") == [(2,)]
    assert found(tmp_path, "joined") == [(1, 10), (2, None)]
    with engine_on(tmp_path) as engine:
        engine.query("unpaid", UNPAID)
        engine.query("joined", LEFT)
        # A partner of row 2 is joined after all. Row 3 is newer than the flush: it waits for its deadline.
        put(tmp_path, "a", 1, [(3, 3, 3)])
        put(tmp_path, "b", 1, [(3, 11, 2)])
        engine.run_once()
        assert found(tmp_path, "unpaid") == [(2,)]
        assert found(tmp_path, "joined") == [(1, 10), (2, 11), (2, None)]
        put(tmp_path, "b", 2, [(20, 12, 9)])
        engine.run_once(flush=True)
    assert found(tmp_path, "unpaid") == [(2,), (3,)]
    assert found(tmp_path, "joined") == [(1, 10), (2, 11), (2, None), (3, None)]
