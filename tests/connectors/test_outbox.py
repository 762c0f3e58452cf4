"""Results on their way to a target outside: each arrives once, whatever fails, and ticks do not wait for it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deaths import dying_at, silent_threads
from tests.support.inside import abandon, run_until_death
from tests.support.poisoned import HEALTHY, VICTIM, Poisoned
from tests.support.waiting import eventually
from watersmeet.control.stats import stats_of_home
from watersmeet.errors import ModelError
from watersmeet.home import layout
from watersmeet.home.manifest import Manifest, commit, load_earlier, load_newest
from watersmeet.home.outbox import Lane, Parcel
from watersmeet.model import Sink
from watersmeet.model.targets import BUILT_IN
from watersmeet.runtime import outbox

PLAIN = HEALTHY["plain"]


@pytest.fixture(autouse=True)
def sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "sqlite", "tests.support.sqlite_target:CONNECTOR")
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(outbox, "_LONGEST_PAUSE", 0.05)


class Delivered(Poisoned):
    """An engine whose victim's results go to a database."""

    lost: frozenset[str] = frozenset()  # files of the outbox that a test has deleted

    @property
    def database(self) -> Path:
        return self.folder / "results.db"

    @property
    def down(self) -> Path:
        return self.folder / "results.db.down"

    def into_database(self, name: str = VICTIM) -> None:
        self.declare(PLAIN, Sink("sqlite", str(self.database)), name)

    def in_database(self, name: str = VICTIM) -> Counter[tuple[int, int]]:
        if not self.database.exists():
            return Counter()
        with sqlite3.connect(self.database) as database:
            rows = database.execute("SELECT result FROM results WHERE query = ?", (name,)).fetchall()
        database.close()
        return Counter(tuple(json.loads(text).values()) for (text,) in rows)

    def check_delivered(self) -> None:
        self.check()  # which compares the results of the same query without INTO with the oracle's
        assert self.in_database() == self.results("plain")


@pytest.fixture
def delivered(tmp_path: Path) -> Iterator[Delivered]:
    made = Delivered(tmp_path)
    made.into_database()
    yield made
    newest = load_newest(made.home)
    named, before = _waiting(newest), set[str]().union(*map(_waiting, load_earlier(made.home, newest.tick)[:1]))
    found = {str(path.relative_to(made.home)) for path in (made.home / layout.OUTBOX).glob("*/*.parquet")}
    assert named - made.lost <= found, "files of the outbox are missing"
    assert found <= named | before, "files of the outbox that no manifest names are left"


def _waiting(manifest: Manifest) -> set[str]:
    return {file for lane in manifest.outbox for parcel in lane.parcels for file in parcel.files}


def test_each_result_arrives_once_through_restarts(delivered: Delivered) -> None:
    for _ in range(4):
        delivered.live()
        delivered.check_delivered()
    assert max(parcel.tick for lane in load_newest(delivered.home).outbox for parcel in lane.parcels) == 4


def test_what_was_delivered_leaves_the_manifest_and_the_home(delivered: Delivered) -> None:
    with delivered.running() as engine:
        for _ in range(4):
            delivered.feed()
            engine.run_once()
        (lane,) = load_newest(delivered.home).outbox
        assert [parcel.tick for parcel in lane.parcels] == [4]
    delivered.check_delivered()


POINTS = ["commit.before", "manifest.linked", "publish.before", "discard.before", "tick.end"]
IN_THE_THREAD = ["target.open", "target.recovered", "target.commit", "target.written", "target.committed"]


@pytest.mark.parametrize("point", [*POINTS, *IN_THE_THREAD, "delivery.known"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_death_at_any_point(delivered: Delivered, point: str) -> None:
    delivered.live()
    delivered.feed()
    engine = delivered.engine()
    with dying_at(point) as died, silent_threads():
        run_until_death(engine, died)
    abandon(engine)
    delivered.live()
    delivered.check_delivered()


def test_a_target_that_is_down_does_not_stop_ticks(delivered: Delivered) -> None:
    delivered.down.touch()
    with delivered.running() as engine:
        for _ in range(3):
            delivered.feed()
            engine.run_once()
        assert engine.newest.tick == 3 and not delivered.suspended
        delivered.check()
        assert not delivered.in_database()
        shown = {query.name: query.outbox for query in engine.stats().queries}
        waiting = shown[VICTIM]
        assert waiting and waiting.ticks == 3 and waiting.rows == delivered.results("plain").total()
        eventually(lambda: (engine.stats().as_json()["outbox"][VICTIM]["tries"]) > 2)
        assert "the database is down" in stats_of_home(delivered.home).as_json()["outbox"][VICTIM]["reason"]
        delivered.down.unlink()
        eventually(lambda: delivered.in_database() == delivered.results("plain"))
        assert not engine.stats().as_json()["outbox"]


def test_what_waits_is_delivered_by_the_next_start(delivered: Delivered) -> None:
    delivered.down.touch()
    delivered.live()
    delivered.live()
    delivered.down.unlink()
    delivered.live()
    delivered.check_delivered()


def test_too_many_ticks_wait(delivered: Delivered) -> None:
    delivered.options["max_outbox_ticks"] = 2
    delivered.down.touch()
    with delivered.running() as engine:
        for _ in range(5):
            delivered.feed()
            engine.run_once()
        assert "max_outbox_ticks" in delivered.reason() and "the database is down" in delivered.reason()
        delivered.check()
        before = engine.newest.outbox[0].parcels[-1].tick
        delivered.down.unlink()
        eventually(lambda: max_tick(delivered) == before)  # what waits is delivered
        engine.resume(VICTIM)
        delivered.feed()
        engine.run_once()
        assert not delivered.suspended and max_tick(delivered) == engine.newest.tick


def max_tick(delivered: Delivered) -> int:
    """The newest tick in the database; 0 where the first delivery has not made it yet."""
    database = sqlite3.connect(delivered.database)
    with contextlib.closing(database), contextlib.suppress(sqlite3.OperationalError):
        (found,) = database.execute("SELECT max(tick) FROM ticks").fetchone()
        return int(found or 0)
    return 0


def test_an_error_that_no_try_cures_suspends_the_query_and_a_resume_delivers(delivered: Delivered) -> None:
    delivered.database.mkdir()
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        assert "is a folder" in delivered.reason()
        delivered.feed()
        engine.run_once()
        delivered.check()
        delivered.database.rmdir()
        assert not delivered.database.exists()
        engine.resume(VICTIM)
        engine.settle(0)
        eventually(lambda: max_tick(delivered) == 1)


def test_a_dropped_query_is_still_delivered(delivered: Delivered) -> None:
    delivered.down.touch()
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        expected = delivered.results("plain")
        engine.drop(VICTIM)
        delivered.feed()
        engine.run_once()
    delivered.down.unlink()
    delivered.declared.clear()
    delivered.live()
    assert delivered.in_database() == expected


def test_two_queries_share_a_target(delivered: Delivered) -> None:
    delivered.into_database("other")
    delivered.live()
    delivered.live()
    delivered.check_delivered()
    assert delivered.in_database("other") == delivered.results("plain")


def test_a_home_of_an_earlier_state_is_noticed(delivered: Delivered) -> None:
    delivered.live()
    with sqlite3.connect(delivered.database) as database:
        database.execute("UPDATE ticks SET tick = 90")
    database.close()
    delivered.live()
    assert "has tick 90" in delivered.reason()
    delivered.check()


def test_results_are_not_in_the_home(delivered: Delivered) -> None:
    with delivered.running() as engine, pytest.raises(ModelError, match="delivered to sqlite"):
        engine[VICTIM].results()
    with delivered.running() as engine, pytest.raises(ModelError, match="delivered to sqlite"):
        engine[VICTIM].foreach_tick(lambda rows, tick: None)


def test_a_lost_file_of_the_outbox_is_reported(delivered: Delivered) -> None:
    delivered.down.touch()
    delivered.live()
    delivered.down.unlink()
    (lane,) = load_newest(delivered.home).outbox
    delivered.lost = frozenset(lane.parcels[0].files)
    for file in delivered.lost:
        (delivered.home / file).unlink()
    delivered.live()
    assert "is missing" in delivered.reason()
    delivered.check()


def test_an_outbox_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    sink = Sink("sqlite", "x", (("a", "env('B')"),))
    made = Manifest(1, outbox=(Lane("q", sink, (Parcel(1, 3, ("outbox/q/1.parquet",)),)),))
    commit(tmp_path, made)
    assert load_newest(tmp_path).outbox == made.outbox
