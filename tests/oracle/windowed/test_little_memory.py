"""Windows that are made in pieces of their keys give what DuckDB gives for the rows of each window."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.windowed.queries import continuous, declaration, one_stream, rows, two_streams
from tests.oracle.windowed.test_joins import FACTORIZED, PAIRS, kinds_of
from tests.oracle.windowed.test_slices import POINTS, randoms
from tests.support.deaths import subscribed
from tests.support.examples import examples
from tests.support.little_memory import little_memory
from tests.support.many_keys import FEW, MANY, SOME, as_many_keys
from tests.support.windowed import Asked, WindowedRun
from watersmeet.errors import RunError
from watersmeet.runtime.emit import result_files

SHARES = (500, 4000, 30_000)


@settings(max_examples=examples(15))
@given(randoms, st.sampled_from([1, 3]), st.sampled_from([FEW, SOME, MANY]), st.sampled_from(SHARES), st.booleans())
def test_random_queries(random: Random, partitions: int, keys: str, share: int, failing: bool) -> None:
    """Of one stream, of joins in each form; with restarts, deaths, and pieces that find no memory."""
    little = little_memory(share, Random(random.random()) if failing else None)
    with tempfile.TemporaryDirectory() as folder, as_many_keys(keys), little:
        run = WindowedRun(Path(folder) / "home", declaration(random.choice([0, 4])), partitions)
        for at in range(random.randint(1, 3)):
            run.add(f"q{at}", one_stream(random))
        for at in range(random.randint(0, 2)):
            asked, kind = two_streams(random), random.choice([FACTORIZED, PAIRS])
            run.add(f"j{at}", asked, kind=kind if kind in kinds_of(asked, run) else "")
        if random.random() < 0.3:
            run.add("c", continuous(random))
        now = 0
        for _ in range(random.randint(3, 6)):
            now += random.choice([0, 2, 6, 30])
            killed = random.choice(POINTS) if random.random() < 0.15 else ""
            run.tick({"r": rows(random, "r", now, 6), "t": rows(random, "t", now, 6)}, killed)
            if random.random() < 0.15:
                run.partitions = random.randint(1, 3)
                run.restart()
        run.flush()
        run.check()


WINDOW = "[RANGE 20 SECONDS SLIDE 10 SECONDS]"
ALL_KEYS = {
    "plain": Asked(
        f"SELECT k, s, sum(v) AS x FROM r {WINDOW} GROUP BY k, s",
        "SELECT k, s, CAST(sum(v) AS BIGINT) FROM r GROUP BY k, s",
    ),
    "having": Asked(
        f"SELECT k, count(*) AS n FROM r {WINDOW} GROUP BY k HAVING count(*) > 2",
        "SELECT k, count(*) FROM r GROUP BY k HAVING count(*) > 2",
    ),
    "first": Asked(
        f"SELECT k, s, count(*) AS n FROM r {WINDOW} GROUP BY k, s ORDER BY n DESC, k, s LIMIT 3 OFFSET 1",
        "SELECT k, s, count(*) AS n FROM r GROUP BY k, s ORDER BY n DESC, k NULLS FIRST, s NULLS FIRST LIMIT 3 "
        "OFFSET 1",
    ),
    "different": Asked(
        f"SELECT DISTINCT count(*) AS n FROM r {WINDOW} GROUP BY k, s",
        "SELECT DISTINCT count(*) FROM r GROUP BY k, s",
    ),
    "values": Asked(
        f"SELECT k, count(DISTINCT v) AS n, sum(v) AS x FROM r {WINDOW} GROUP BY k",
        "SELECT k, count(DISTINCT v), CAST(sum(v) AS BIGINT) FROM r GROUP BY k",
    ),
    "whole": Asked(
        f"SELECT count(DISTINCT k, v) AS n, count(DISTINCT s) FILTER (WHERE v > 1) AS m, min(v) AS x FROM r {WINDOW}",
        "SELECT count(DISTINCT (k, v)) FILTER (WHERE k IS NOT NULL AND v IS NOT NULL), "
        "count(DISTINCT s) FILTER (WHERE v > 1), min(v) FROM r",
    ),
    "chain": Asked(
        f"SELECT x.s, count(*) AS n, sum(y.w) AS z, max(x.v) AS m FROM r {WINDOW} x, t {WINDOW} y, r {WINDOW} u "
        "WHERE x.k = y.k AND y.w = u.v GROUP BY x.s",
        "SELECT x.s, count(*), CAST(sum(y.w) AS BIGINT), max(x.v) FROM r x, t y, r u "
        "WHERE x.k = y.k AND y.w = u.v GROUP BY x.s",
    ),
    "star": Asked(
        f"SELECT count(*) AS n, min(u.v) AS m FROM r {WINDOW} x, t {WINDOW} y, r {WINDOW} u "
        "WHERE x.k = y.k AND x.k = u.k",
        "SELECT count(*), min(u.v) FROM r x, t y, r u WHERE x.k = y.k AND x.k = u.k",
    ),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("keys", [FEW, MANY])
@pytest.mark.parametrize("name", ALL_KEYS)
def test_what_needs_all_keys(tmp_path: Path, name: str, keys: str, partitions: int) -> None:
    random = Random(name)
    with as_many_keys(keys), little_memory(400) as seen:
        run = WindowedRun(tmp_path / "home", declaration(0), partitions)
        run.add(name, ALL_KEYS[name])
        for now in (0, 5, 15, 40):
            tables = {each: [rows(random, each, now + at, 6) for at in range(5)] for each in ("r", "t")}
            for r, t in zip(tables["r"], tables["t"], strict=True):
                run.tick({"r": r, "t": t})
        run.flush()
        run.check()
    assert max(seen) > 1


@pytest.mark.parametrize("name", ["plain", "first", "star"])
def test_a_disk_that_is_full_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Results that were taken before are not made again: the tick fails."""
    random, full = Random(name), list(range(2))
    monkeypatch.setattr(result_files, "HELD_BYTES", 1)

    def fill(point: str, about: object) -> None:
        if point == "results.write" and full and full.pop() == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with little_memory(400):
        run = WindowedRun(tmp_path / "home", declaration(0))
        run.add("a", ALL_KEYS[name])
        run.add("b", ALL_KEYS[name])
        run.tick({each: rows(random, each, 0, 20) for each in ("r", "t")})
        with subscribed(fill), pytest.raises(RunError, match="is full"):
            run.flush()
        assert not full
        run.restart()
        run.flush()
        run.check()


@pytest.mark.parametrize("name", ["plain", "first", "star"])
def test_results_that_wait_and_find_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Their query is suspended, whichever is computed while they are written."""
    failing, stream = [False, True], pa.BufferOutputStream

    def no_memory() -> pa.BufferOutputStream:
        if failing.pop():
            raise MemoryError
        failing.append(False)
        return stream()

    monkeypatch.setattr(result_files, "HELD_BYTES", 200)
    monkeypatch.setattr(result_files, "MANY", 0)
    monkeypatch.setattr(pa, "BufferOutputStream", no_memory)
    found = []
    for folder in ("short", "enough"):
        with little_memory(400):
            run = WindowedRun(tmp_path / folder, declaration(0))
            run.loop.delay.seconds = 3600
            for query in ("a", "b"):
                run.add(query, ALL_KEYS[name])
            run.tick({each: rows(Random(name), each, 0, 20) for each in ("r", "t")})
            run.flush()
        found.append(run.found("b", run.lives["b"].query))
        assert set(run.manifest.suspended) == ({"a"} if folder == "short" else set())
    assert found[0] == found[1]
