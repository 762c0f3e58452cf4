"""Joins by other than equalities on Spark: the code of a registered predicate travels to the workers."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support import misbehaving_predicates as misbehaving
from tests.support.commands import command
from tests.support.parquet_input import ONE_FILE_A_TICK, seconds_after_epoch, write_file
from tests.support.two_streams import pairs
from watersmeet import Engine, QueryHandle
from watersmeet.home import layout

SCRIPT = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts FROM parquet '{{0}}/{name}' {ONE_FILE_A_TICK};"
    for name in "rst"
)
FROM = "SELECT r.x AS a, s.x AS b, t.x AS c FROM r, s, t WHERE {} WINDOW UNBOUNDED"


BAD = {
    "stuck": "it timed out after 2 seconds",
    "crashes": "its process was ended by signal SIGSEGV",
    "exits": "it ended its process (3)",
}
VALUES = {name: np.random.default_rng(4 + at).integers(0, 40, 60) for at, name in enumerate("rst")}
EVERY = [tuple(map(int, row)) for row in product(*VALUES.values())]
# Of which a predicate is asked at the least: of all pairs, or after r.x = s.x, as the plan has it.
ASKED = min(len(VALUES["s"]) * len(VALUES["t"]), sum(a == b for a, b, _ in EVERY))


def is_close(left: Any, right: Any) -> Any:
    return np.abs(left - right) <= 2


def write(folder: Path, ticks: range) -> None:
    """The rows of some of the three ticks."""
    for name, numbers in VALUES.items():
        for tick in ticks:
            part = np.split(numbers, 3)[tick]
            write_file(folder / name, tick, pa.table({"ts": seconds_after_epoch([tick] * len(part)), "x": part}))


def check(wanted: dict[QueryHandle, list[tuple[int, ...]]]) -> None:
    for query, rows in wanted.items():
        assert pairs(query.results()) == sorted(rows), query.name


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_bands_scans_and_registered_predicates(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    write(tmp_path, range(3))
    with Engine(spark, home=tmp_path / "home", partitions=partitions) as engine:
        engine.sql(SCRIPT.format(tmp_path))
        engine.predicate("is_close", is_close)
        engine.predicate("breaks", misbehaving.raises)
        mixed = engine.query("mixed", FROM.format("r.x = s.x AND abs(s.x - t.x) <= 1"))
        scanned = engine.query("scanned", FROM.format("r.x BETWEEN s.x AND s.x + 1 AND s.x * t.x < 30"))
        own = engine.query("own", FROM.format("r.x = s.x AND is_close(s.x, t.x)"))
        broken = engine.query("broken", FROM.format("r.x = s.x AND breaks(s.x, t.x)"))
        engine.run_once()
        check(
            {
                mixed: [(a, b, c) for a, b, c in EVERY if a == b and abs(b - c) <= 1],
                scanned: [(a, b, c) for a, b, c in EVERY if b <= a <= b + 1 and b * c < 30],
                own: [(a, b, c) for a, b, c in EVERY if a == b and abs(b - c) <= 2],
                broken: [],
            }
        )
        assert "no idea" in engine.complaints()["breaks"]


@pytest.mark.parametrize("partitions", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_predicates_that_run_away_or_end_their_process(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    """They are off, and all other queries of the same ticks have their results."""
    write(tmp_path, range(2))
    with Engine(spark, home=tmp_path / "home", partitions=partitions, predicate_seconds=2.0) as engine:
        engine.sql(SCRIPT.format(tmp_path))
        engine.predicate("is_close", is_close)
        engine.predicate("stuck", misbehaving.never_leaves_c, by_row=True)
        engine.predicate("crashes", misbehaving.crashes)
        engine.predicate("exits", misbehaving.ends_its_process)
        bad = {name: engine.query(name, FROM.format(f"r.x = s.x AND {name}(s.x, t.x)")) for name in BAD}
        good = engine.query("good", FROM.format("r.x = s.x AND is_close(s.x, t.x)"))
        plain = engine.query("plain", FROM.format("r.x = s.x AND s.x = t.x"))
        engine.run_once()
        told = (engine.home / layout.PREDICATES).read_text()
        write(tmp_path, range(2, 3))
        engine.run_once()
        check(
            {
                good: [(a, b, c) for a, b, c in EVERY if a == b and abs(b - c) <= 2],
                plain: [(a, b, c) for a, b, c in EVERY if a == b == c],
                **{query: [] for query in bad.values()},
            }
        )
        assert (engine.home / layout.PREDICATES).read_text() == told, "a disabled predicate is not called again"
        for name, complaint in BAD.items():
            assert f"{complaint} (" in engine.complaints()[name]
            assert engine.complaints()[name].endswith("it is disabled now (tick 1)")
        failed = {query.name: query.failed_values for query in engine.stats().queries}
        assert all((failed[name] >= ASKED) == (name in bad) for name in failed), failed
        shown = command("stats", "--home", engine.home).stdout
        assert "predicate crashes: its process was ended by signal SIGSEGV" in shown
        assert f"{failed['crashes']:,}" in shown


def test_a_disabled_predicate_is_called_again_when_its_queries_are_added_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, range(1))
    flag = tmp_path / "well"

    def moody(left: Any, right: Any) -> Any:
        if not flag.exists():
            os._exit(1)
        return left == right

    with Engine(spark, home=tmp_path / "home") as engine:
        engine.sql(SCRIPT.format(tmp_path))
        engine.predicate("moody", moody)
        wanted = FROM.format("r.x = s.x AND moody(s.x, t.x)")
        engine.query("q", wanted)
        engine.run_once()
        assert "it is disabled now" in engine.complaints()["moody"]
        flag.touch()
        engine.drop("q")
        again = engine.query("again", wanted, backfill=True)
        engine.run_once()
        first = [set(map(int, np.split(numbers, 3)[0])) for numbers in VALUES.values()]
        rows = {tuple(row) for row in again.results().collect()}
        assert rows == {(x, x, x) for x in set.intersection(*first)}
