"""An engine whose home is new finds out what joins, and computes its windows by another form then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.inside import keeper_of, opened
from tests.support.waiting import PATIENCE
from tests.support.windowed import SECOND, in_windows, plain
from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.adapt.statistics_file import recall
from watersmeet.home.manifest import Manifest, load_newest
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.optimize.research import IN_TURN, Research
from watersmeet.plan.explain import explain

ROWS, TICKS, EPOCH = 3000, 24, 4
GRID = SlidingWindow(4 * SECOND, SECOND)
ASKED = "SELECT {} AS w, x.g, count(*) AS n, sum(y.v) AS s FROM x{} JOIN y{} ON x.id = y.id GROUP BY x.g"
WINDOW = " [RANGE 4 SECONDS SLIDE 1 SECOND]"
DECLARED = """
CREATE STREAM x (at TIMESTAMP, id BIGINT, g INT) TIMESTAMP BY at FROM parquet '{0}/x' WITH (maxFilesPerTrigger = 1);
CREATE STREAM y (at TIMESTAMP, id BIGINT, v INT) TIMESTAMP BY at FROM parquet '{0}/y' WITH (maxFilesPerTrigger = 1);
"""


def write(folder: Path) -> dict[str, pa.Table]:
    """In a second 3,000 rows of x, each with an id of its own, and 1,000 of y with the id of one of them."""
    random, tables = np.random.default_rng(28), dict[str, list[pa.Table]](x=[], y=[])
    for tick in range(TICKS):
        ids = np.arange(tick * ROWS, (tick + 1) * ROWS)
        for name, chosen, column in (("x", ids, "g"), ("y", ids[::3], "v")):
            times = np.sort(random.integers(0, SECOND, len(chosen))) + tick * SECOND
            columns = {"at": pa.array(times, pa.timestamp("us", "UTC")), "id": chosen}
            table = pa.table({**columns, column: random.integers(0, 9, len(chosen), dtype=np.int32)})
            (folder / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, folder / name / f"{tick:03d}.parquet")
            tables[name].append(table)
    return {name: pa.concat_tables(pieces) for name, pieces in tables.items()}


def run(engine: Engine, after: Callable[[int], None] = lambda tick: None) -> list[str]:
    """All ticks; each waits for the optimizer. What explain said of a change that was under way."""
    shown: list[str] = []
    with engine:
        loop, keeper = opened(engine), keeper_of(engine)

        class Waiting:
            def gathered(self, reports: object) -> None:
                pass

            def committed(self, manifest: Manifest) -> None:
                keeper.follower.optimizer.wait(PATIENCE)
                keeper.catch_up()
                after(manifest.tick)
                shown.extend(line.strip() for line in explain(keeper.rendered()).splitlines() if "It changes" in line)

        loop.observers.append(Waiting())
        engine.run_once(flush=True)
    return shown


def results(folder: Path) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return Counter(map(plain, connection.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet')").fetchall()))


@pytest.mark.parametrize("form", ["", IN_TURN])
def test_the_form_follows_the_data(tmp_path: Path, form: str) -> None:
    tables = write(tmp_path / "in")
    engine = Engine(home=tmp_path / "home", executor="local", epoch=EPOCH, research=Research(form=form))
    engine.sql(DECLARED.format(tmp_path / "in"))
    query = engine.query("q", ASKED.format("window_start", WINDOW, WINDOW))
    shown = run(engine)
    asked = ASKED.format("{start}", "", "")
    assert results(query.folder) == in_windows(GRID, asked, tables, 1 << 60, time="at")

    told = [one.reason for one in decisions(tmp_path / "home") if ": from" in one.reason]
    assert told[0] == "q: from factorized to pairs"
    assert len(told) == 1 if not form else len(told) > 1, "a choice by price is made once"
    assert shown[0].startswith(
        "It changes from factorized to pairs: pairs computes the windows that begin at 1970-01-01"
    )
    known = recall(tmp_path / "home")
    assert known is not None and frozenset((("x", "id"), ("y", "id"))) in known.selectivities
    if not form:
        stores = {bucket.store for bucket in load_newest(tmp_path / "home").buckets}
        assert not any(store.startswith("slices x") for store in stores), "those of the first form are gone"


def test_a_query_that_is_suspended_while_it_changes_begins_anew(tmp_path: Path) -> None:
    """The windows of the form that it was leaving are missing, as those that close while it is suspended."""
    tables = write(tmp_path / "in")
    engine = Engine(home=tmp_path / "home", executor="local", epoch=TICKS)
    engine.sql(DECLARED.format(tmp_path / "in"))
    query = engine.query("q", ASKED.format("window_start", WINDOW, WINDOW))

    def after(tick: int) -> None:
        if tick == 6:
            keeper_of(engine).follower.forms = {"q": "pairs"}
            keeper_of(engine).catch_up()
        if tick == 8:
            assert keeper_of(engine).current.leaving, "it is leaving its first form"
            opened(engine).suspend("q", "a test wants it")
        if tick == 10:
            assert "q" in engine.newest.suspended
            engine.resume("q")
            assert not keeper_of(engine).current.leaving

    run(engine, after)
    found, expected = (
        results(query.folder),
        in_windows(GRID, ASKED.format("{start}", "", ""), tables, 1 << 60, time="at"),
    )
    assert not found - expected, "each window is answered once, and with all its rows"
    missing = {row[0] for row in expected - found}
    assert {row[0] for row in found}.isdisjoint(missing)
    # Tick 8 has closed the windows that begin before the fourth second. The next one may be gathered ahead at a resume.
    seconds = {time.second for time in missing if isinstance(time, datetime)}
    assert seconds in ({*range(4, 10)}, {*range(4, 11)})
