"""What an engine measures of its windows, and what it says that they cost."""

from __future__ import annotations

from json import dumps
from pathlib import Path

import pytest

from tests.support.changing_streams import COLUMNS, explosion, script
from watersmeet import Engine
from watersmeet.adapt.measure import Measurements
from watersmeet.adapt.statistics_file import as_json, recall
from watersmeet.adapt.weight_fit import fitted
from watersmeet.errors import ModelError
from watersmeet.home import counters as stages
from watersmeet.home.manifest import load_newest
from watersmeet.optimize.statistics import SliceStatistics, Statistics, read_statistics
from watersmeet.optimize.weights import SHIPPED
from watersmeet.windows.slices.cost import keys_among, keys_from

QUERIES = {
    "sliced": "SELECT id % 50 AS k, count(*) AS n FROM r [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE id % 2 = 0 GROUP BY 1",
    "longer": "SELECT id % 50 AS k, count(*) AS n FROM r [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE id % 2 = 0 GROUP BY 1",
    "joined": "SELECT count(*) AS n, sum(s.id) AS t FROM r, s WHERE r.a = s.a WINDOW TUMBLE 2 SECONDS",
    "results": """SELECT s.id % 10 AS k, count(*) AS n FROM s [RANGE 2 SECONDS], t [RANGE 2 SECONDS] WHERE s.b = t.b
      GROUP BY window(result_time(), '1 second'), s.id % 10""",
}
ROWS, TICKS = 2000, 12


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    explosion(ROWS, ticks=TICKS, change=TICKS, partners=4).write(tmp_path / "in")
    made = Engine(home=tmp_path / "home", executor="local", epoch=4)
    made.sql(script(tmp_path / "in"))
    for name, text in QUERIES.items():
        made.query(name, text)
    return made


def test_an_engine_measures_its_windows(engine: Engine, tmp_path: Path) -> None:
    with engine:
        engine.run_once()
        shown = engine.plan()
    totals = load_newest(tmp_path / "home").totals
    assert totals.spent[stages.SLICING] > 0 and totals.spent[stages.WINDOWS] > 0
    assert {stages.SLICED_ROWS, stages.SLICE_VALUES, stages.READINGS} <= set(totals.done)
    known = recall(tmp_path / "home")
    assert known is not None and {"sliced_row", "slice_call", "window_call", "window_value"} <= set(known.weights)
    assert known.progress == pytest.approx(dict.fromkeys(COLUMNS, 1.0), rel=0.1)
    (sliced,) = (store for store in shown.slices if store.serves == ("longer", "sliced"))
    measured = known.slices[sliced.name]
    assert measured.rows == pytest.approx(ROWS / 2, rel=0.02), "the rows that pass the filter"
    assert measured.slices == pytest.approx(25, rel=0.1), "a tick is a slice"
    assert measured.keys == pytest.approx(25, rel=0.1)
    assert known.results["sliced"] == pytest.approx(25, rel=0.1)
    assert known.results["joined"] == pytest.approx(1, rel=0.1)
    assert not any(query.assumed for query in shown.windows)
    assert sum(query.cost for query in shown.windows) == pytest.approx(shown.window_cost)


def test_statistics_of_slices_are_remembered() -> None:
    slices = {"slices r 1": SliceStatistics("r by k", 10.0, 5.0, 7.0)}
    known = Statistics(progress={"r": 1.5}, slices=slices, results={"q": 3.0})
    assert read_statistics(dumps(as_json(known))) == known


def test_a_rate_says_which_time_the_rows_of_a_tick_cover() -> None:
    assert read_statistics('{"rates": {"r": 50}}', {"r": 10.0}).progress == {"r": 1.0}, "ten ticks renew the window"
    assert read_statistics('{"rates": {"r": 50}, "arrivals": {"r": 25}}', {"r": 10.0}).progress == {"r": 0.5}


def test_numbers_that_are_not_finite_are_rejected() -> None:
    with pytest.raises(ModelError, match=r"progress\.r must be a finite number"):
        read_statistics('{"progress": {"r": Infinity}}')


@pytest.mark.parametrize("last", ["", "LIMIT 100"])
def test_keys_are_those_of_all_partitions(last: str, tmp_path: Path) -> None:
    """Windows are answered by each partition, or by one task that reads all of them."""
    explosion(200, ticks=8, change=8, partners=4).write(tmp_path / "in")
    engine = Engine(home=tmp_path / "home", executor="local", epoch=4, partitions=3)
    engine.sql(script(tmp_path / "in"))
    engine.drop("q")
    engine.query("sliced", f"SELECT id % 50 AS k, count(*) AS n FROM r [TUMBLE 1 SECOND] GROUP BY 1 {last}")
    with engine:
        engine.run_once()
    known = recall(tmp_path / "home")
    assert known is not None
    assert [store.keys for store in known.slices.values()] == [pytest.approx(50, rel=0.1)]


@pytest.mark.parametrize(("rows", "keys"), [(10, 1000), (1000, 10), (500, 500), (1e6, 3e4)])
def test_keys_are_found_again(rows: float, keys: float) -> None:
    assert keys_from(rows, keys_among(rows, keys)) == pytest.approx(keys, rel=0.01)


def test_every_row_may_have_a_key_of_its_own() -> None:
    assert keys_among(1e6, keys_from(1000, 1000)) == pytest.approx(1e6, rel=0.01)


def test_weights_of_windows_follow_what_they_take() -> None:
    done = {stages.WINDOW_JOBS: 10, stages.WINDOW_ROWS: 1000, stages.READINGS: 10, stages.READ_VALUES: 10_000}
    spark = 10 * SHIPPED.window_job + 1000 * SHIPPED.window_row
    windows = 10 * SHIPPED.window_call + 10_000 * SHIPPED.window_value
    spent = {stages.SPARK_WINDOWS: int(3 * spark), stages.WINDOWS: int(windows / 2)}
    known: dict[str, float] = {}
    for _ in range(12):
        known = fitted(known, Measurements(10, 1.0, spent=spent, done=done))
    assert known["window_job"] == pytest.approx(3 * SHIPPED.window_job, rel=0.05)
    assert known["window_value"] == pytest.approx(SHIPPED.window_value / 2, rel=0.05)
    assert "row" not in known and "result_row" not in known, "joins are not charged for windows"
