"""Windows that are made of slices give what DuckDB gives for the rows of each window."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.windowed.queries import declaration, one_stream, rows
from tests.support.examples import examples
from tests.support.many_keys import FEW, MANY, SOME, as_many_keys
from tests.support.windowed import Asked, WindowedRun

POINTS = (
    "tick.begin",
    "bucket.written",
    "gather.after",
    "results.written",
    "probe.after",
    "manifest.draft",
    "manifest.linked",
    "publish.between",
    "discard.before",
    "tick.end",
)
randoms = st.randoms(use_true_random=False)


@settings(max_examples=examples(12))
@given(randoms, st.sampled_from([1, 3]), st.sampled_from([1, 2]), st.sampled_from([FEW, SOME, MANY]))
def test_random_queries_with_restarts_and_deaths(random: Random, partitions: int, tasks: int, keys: str) -> None:
    with tempfile.TemporaryDirectory() as folder, as_many_keys(keys):
        run = WindowedRun(Path(folder) / "home", declaration(random.choice([0, 4, 12])), partitions, tasks)
        for at in range(random.randint(1, 4)):
            run.add(f"q{at}", one_stream(random))
        now = random.choice([0, 1_700_000_000])
        for _ in range(random.randint(3, 9)):
            now += random.choice([0, 2, 6, 30, 10**8])
            killed = random.choice(POINTS) if random.random() < 0.25 else ""
            run.tick({"r": rows(random, "r", now, 6)}, killed)
            if random.random() < 0.15:
                run.restart()
        run.check()
        run.flush()
        run.check()


@settings(max_examples=examples(12))
@given(randoms, st.sampled_from([FEW, SOME, MANY]))
def test_another_number_of_partitions_while_windows_are_open(random: Random, keys: str) -> None:
    with tempfile.TemporaryDirectory() as folder, as_many_keys(keys):
        run = WindowedRun(Path(folder) / "home", declaration(random.choice([0, 4])), random.randint(1, 4))
        for at in range(random.randint(1, 4)):
            run.add(f"q{at}", one_stream(random))
        now = 0
        for _ in range(random.randint(3, 9)):
            now += random.choice([0, 2, 6, 30])
            run.tick({"r": rows(random, "r", now, 6)}, random.choice(POINTS) if random.random() < 0.1 else "")
            if random.random() < 0.4:
                run.partitions = random.randint(1, 4)
                run.restart()
        run.check()
        run.flush()
        run.check()


@settings(max_examples=examples(12))
@given(randoms, st.sampled_from([1, 3]), st.sampled_from([FEW, SOME, MANY]))
def test_queries_come_and_go(random: Random, partitions: int, keys: str) -> None:
    with tempfile.TemporaryDirectory() as folder, as_many_keys(keys):
        run = WindowedRun(Path(folder) / "home", declaration(5, retained=True), partitions)
        now, names = 0, 0
        for _ in range(random.randint(5, 12)):
            now += random.choice([0, 2, 6, 30])
            action = random.random()
            active = [name for name, life in run.lives.items() if life.active]
            if action < 0.35 or not active:
                run.add(f"q{names}", one_stream(random), backfill=random.random() < 0.4, addition=f"x{names}")
                names += 1
            elif action < 0.5:
                run.drop(random.choice(active))
            elif action < 0.6:
                run.restart()
            run.tick({"r": rows(random, "r", now, 5)}, random.choice(POINTS) if random.random() < 0.1 else "")
        run.flush()
        run.check()


@pytest.mark.parametrize("keys", [FEW, MANY])
def test_the_limit_of_keys_counts_them_before_having(keys: str, tmp_path: Path) -> None:
    sql = "SELECT k, count(*) AS n FROM r [TUMBLE 10 SECONDS] GROUP BY k HAVING count(*) > 99"
    with as_many_keys(keys):
        run = WindowedRun(tmp_path / "home", declaration(0), settings={"max_matches": 10})
        run.add("q", Asked(sql, ""))
        table = rows(Random(1), "r", 1, 0).slice(0, 0)
        columns: dict[str, list[object]] = {name: [None] * 20 for name in table.column_names}
        columns |= {"ts": [datetime(2026, 1, 1, 0, 0, at % 5, tzinfo=UTC) for at in range(20)], "k": list(range(20))}
        run.tick({"r": pa.table(columns, schema=table.schema)})
        run.flush()
        assert "max_matches" in run.manifest.suspended["q"].reason
