"""One query fails while it runs: it is suspended with the reason, and the others have the oracle's results."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import duckdb
import pyarrow as pa
import pytest
from rich.console import Console

from tests.support.change_log import requested
from tests.support.inside import loop_of
from tests.support.poisoned import VICTIM, Poisoned
from watersmeet import Engine
from watersmeet.adapt.decisions import decisions
from watersmeet.cli.dashboard import StatsWatch, as_line, as_table
from watersmeet.control.stats import stats_of_home
from watersmeet.errors import ModelError, StateError
from watersmeet.home import manifest
from watersmeet.home.manifest import load_newest
from watersmeet.io import sinks
from watersmeet.model import Sink
from watersmeet.runtime import committer
from watersmeet.runtime.emit import query_results
from watersmeet.store import evaluate

JOIN = "FROM l [RANGE 10 SECONDS] l, r [RANGE 10 SECONDS] r WHERE l.k = r.k"
PLAIN = f"SELECT l.id AS a, r.id AS b {JOIN}"
OUT = "out"


@pytest.fixture
def poisoned(tmp_path: Path) -> Poisoned:
    return Poisoned(tmp_path)


# The folder of its results ---------------------------------------------------------------------------


def _lost(folder: Path) -> None:
    shutil.rmtree(folder)


def _replaced(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("in the way")


def _dangling(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(folder.parent / "nowhere" / "at all")


def _in_the_way_of_the_staging_folder(folder: Path) -> None:
    shutil.rmtree(folder / "_staging", ignore_errors=True)
    (folder / "_staging").write_text("in the way")


def test_folder_that_cannot_be_written_at_a_start(poisoned: Poisoned) -> None:
    folder = poisoned.folder / OUT
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    poisoned.live()
    poisoned.check()
    _replaced(folder)
    poisoned.live()
    assert "cannot be written" in poisoned.reason()
    poisoned.check()
    poisoned.live()
    poisoned.check()
    assert load_newest(poisoned.home).suspended[VICTIM].tick == 2


@pytest.mark.parametrize("trouble", [_replaced, _dangling, _in_the_way_of_the_staging_folder])
def test_folder_that_cannot_be_written_while_the_engine_runs(
    poisoned: Poisoned, trouble: Callable[[Path], None]
) -> None:
    folder = poisoned.folder / OUT
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    with poisoned.running() as engine:
        for tick in range(1, 5):
            if tick == 3:
                trouble(folder)
            poisoned.feed()
            engine.run_once()
            poisoned.check()
    assert str(folder) in poisoned.reason()
    assert load_newest(poisoned.home).suspended[VICTIM].tick == 3
    poisoned.live()
    poisoned.check()


def test_folder_that_is_lost_is_made_again(poisoned: Poisoned) -> None:
    """Its results belong to the readers; there is nothing that the engine needs in it."""
    folder = poisoned.folder / OUT
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    poisoned.live()
    _lost(folder)
    poisoned.live()
    assert not poisoned.suspended
    assert list(folder.glob("0*2-*.parquet"))
    poisoned.check()


def test_folder_that_is_replaced_by_a_link_to_nowhere_is_made_where_the_link_leads(poisoned: Poisoned) -> None:
    folder = poisoned.folder / OUT
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    poisoned.live()
    _dangling(folder)
    poisoned.live()
    assert not poisoned.suspended
    assert list(folder.glob("0*2-*.parquet"))
    poisoned.check()


def test_folder_that_is_lost_between_commit_and_publication(poisoned: Poisoned) -> None:
    folder = poisoned.folder / OUT
    poisoned.declare(PLAIN, Sink(path=str(folder)))
    poisoned.live()
    real = manifest.commit

    def committing(*given: object) -> None:
        real(*given)  # type: ignore[arg-type]
        if folder.is_dir():
            _replaced(folder)

    with mock.patch.object(committer, "commit", committing):
        poisoned.live()
    poisoned.live()
    assert "cannot be published" in poisoned.reason() or "cannot be written" in poisoned.reason()
    poisoned.check()


# Writing its results ---------------------------------------------------------------------------------


def _failing_writer(problem: Exception) -> object:
    """What an older version let in, or a library that fails for some values."""

    class Failing:
        def __init__(self, *given: object) -> None:
            pass

        def write(self, rows: pa.Table) -> None:
            raise problem

        def close(self) -> None:
            raise problem

    return mock.patch.dict(sinks._FORMATS, csv=replace(sinks._FORMATS["csv"], writer=Failing))


@pytest.mark.parametrize(
    "problem",
    [
        pa.ArrowInvalid("Unsupported Type:list"),
        TypeError("only single character unicode strings"),
        ValueError("bad codec"),
        OSError(5, "Input/output error"),
        MemoryError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_sink_that_cannot_write(poisoned: Poisoned, problem: Exception) -> None:
    poisoned.declare(PLAIN, Sink("csv", str(poisoned.folder / OUT)))
    poisoned.live()
    with mock.patch.object(sinks, "_trial", lambda *given: ""), _failing_writer(problem):  # type: ignore[attr-defined]
        poisoned.live()
        assert (str(problem.args[-1]) if problem.args else "MemoryError") in poisoned.reason()
        poisoned.check()
        poisoned.live()
        poisoned.check()
    staged = poisoned.folder / OUT / "_staging"
    assert not staged.exists() or not list(staged.iterdir())


def test_full_disk_of_the_home_stops_the_engine(poisoned: Poisoned) -> None:
    poisoned.declare(PLAIN, Sink("csv", str(poisoned.folder / OUT)))
    poisoned.live()
    full = OSError(28, "No space left on device")
    with _failing_writer(full), pytest.raises(Exception, match="is full"):  # type: ignore[attr-defined]
        poisoned.live()
    assert not poisoned.suspended
    with poisoned.running() as engine:
        engine.run_once()
    poisoned.check()


def test_damaged_state_stops_the_engine(poisoned: Poisoned) -> None:
    poisoned.declare(PLAIN)
    poisoned.live()
    for bucket in (poisoned.home / "state" / "r").iterdir():
        bucket.write_bytes(b"damaged")
    with pytest.raises(StateError):
        poisoned.live()
    assert not poisoned.suspended


def test_outputs_that_cannot_be_put_together(poisoned: Poisoned) -> None:
    poisoned.declare(f"SELECT l.id AS a, r.n + 1 AS b {JOIN}")
    poisoned.live()
    real = evaluate.evaluate

    def evaluated(rows: pa.Table, expressions: list[str]) -> object:
        if any("+ 1" in text for text in expressions):
            raise pa.ArrowInvalid("these outputs are poison")
        return real(rows, expressions)

    with mock.patch.object(query_results, "evaluate", evaluated):
        poisoned.live()
    assert poisoned.reason() == "these outputs are poison"
    poisoned.live()
    poisoned.check()


def test_invalid_text_is_set_aside(poisoned: Poisoned) -> None:
    """A string that is no UTF-8 concerns its row, not the queries that read it."""
    poisoned.declare(f"SELECT l.id AS a, upper(r.s) AS b, r.s AS c {JOIN}", Sink("json", str(poisoned.folder / OUT)))
    poisoned.live()
    bad = pa.array([b"good", b"\xff\xfe", *[b"x"] * 6], pa.binary()).view(pa.string())
    poisoned.live(s=bad)
    assert not poisoned.suspended
    (stream,) = (one for one in stats_of_home(poisoned.home).streams if one.name == "r")
    assert stream.set_aside == {"invalid UTF-8": 1}
    assert stream.rows == 16


# Coming back -----------------------------------------------------------------------------------------


def _break(poisoned: Poisoned, engine: Engine, problem: str = "poison") -> None:
    """The next tick of the engine suspends the victim."""
    real = query_results.QueryResults.write

    def write(self: query_results.QueryResults, query: str, *rows: object) -> None:
        if query == VICTIM:
            raise ValueError(problem)
        real(self, query, *rows)  # type: ignore[arg-type]

    with mock.patch.object(query_results.QueryResults, "write", write):
        poisoned.feed()
        engine.run_once()
    assert poisoned.reason() == problem


def _ticks_of(poisoned: Poisoned) -> dict[int, int]:
    """How many results the victim has of each tick."""
    files = f"read_parquet('{poisoned.home}/results/{VICTIM}/0*.parquet', filename = true)"
    tick = "regexp_extract(filename, '(\\d+)-[^/]*$', 1)::INT"
    return dict(duckdb.execute(f"SELECT {tick}, count(*) FROM {files} GROUP BY ALL").fetchall())


def test_resumed_query_finds_all_that_arrives_from_then_on(poisoned: Poisoned) -> None:
    """Rows that arrived while it was suspended were stored for it, though no other query wants them."""
    only = PLAIN.replace("l.k = r.k", "l.n = r.n")  # nobody else joins by n
    poisoned.declare(only)
    with poisoned.running() as engine:
        for _ in range(2):
            poisoned.feed(4)
            engine.run_once()
        _break(poisoned, engine)
        poisoned.feed(4)
        engine.run_once()
        with pytest.raises(ModelError, match="not suspended"):
            engine.resume("plain")
        missing = engine.resume(VICTIM)
        assert missing.startswith(f"{VICTIM}: the results of ticks 3 to ")
        first = int(missing.split(" to ")[1].split()[0]) + 1
        poisoned.feed(4)
        engine.run_once()
        assert not poisoned.suspended
    found = _ticks_of(poisoned)
    assert found[1] == 16 and found[2] == 48
    # With rows of 4, 4, 8 and 4 a side before, and 4 now: each side's new rows with all of the other.
    assert sum(count for tick, count in found.items() if tick >= first) == 4 * 24 + 24 * 4 - 16
    assert not [tick for tick in found if 3 <= tick < first]
    poisoned.check()
    poisoned.live()
    assert not poisoned.suspended
    poisoned.check()


def test_it_stays_suspended_through_restarts_and_can_be_dropped_and_added(poisoned: Poisoned) -> None:
    poisoned.declare(PLAIN)
    with poisoned.running() as engine:
        poisoned.feed()
        engine.run_once()
        _break(poisoned, engine)
    for _ in range(3):
        poisoned.live()
        assert poisoned.suspended[VICTIM].tick == 2
        poisoned.check()
    with poisoned.running() as engine:
        engine.run_once()
        engine.drop(VICTIM)
        engine.query(VICTIM, PLAIN)
        poisoned.feed()
        engine.run_once()
        assert not poisoned.suspended
        assert engine.stats().queries[-1].suspended is None
    assert max(_ticks_of(poisoned)) > 5
    poisoned.check()


def test_a_resumption_outlives_a_kill_before_its_tick(poisoned: Poisoned) -> None:
    """The log names the suspension that it ends, so that a later one is not taken for it."""
    poisoned.declare(PLAIN)
    with poisoned.running() as engine:
        poisoned.feed()
        engine.run_once()
        _break(poisoned, engine)
        first = poisoned.suspended[VICTIM]
        engine.resume(VICTIM)
        loop_of(engine).finish()  # no tick follows, as after a kill
    assert [entry.kind for entry in requested(poisoned.home)] == ["resume"]
    with poisoned.running() as engine:
        _break(poisoned, engine, "again")
    assert poisoned.suspended[VICTIM].id != first.id
    for _ in range(2):
        poisoned.live()
        assert poisoned.reason() == "again"
    poisoned.check()


def test_suspended_queries_are_shown(poisoned: Poisoned, caplog: pytest.LogCaptureFixture) -> None:
    poisoned.declare(PLAIN)
    with poisoned.running() as engine:
        poisoned.feed()
        engine.run_once()
        assert not caplog.messages
        _break(poisoned, engine)
        hint = f"when that is solved: watersmeet resume --home {poisoned.home} {VICTIM}"
        assert caplog.messages == [f"query {VICTIM} is suspended since tick 2: poison; {hint}"]
        (shown,) = (query.suspended for query in engine.stats().queries if query.name == VICTIM)
        view = StatsWatch(engine).look()
        assert as_line(view).endswith(" · 1 suspended")
        console = Console(width=200, record=True, file=io.StringIO())
        console.print(as_table(view))
        assert f"{VICTIM} is suspended since tick 2: poison" in console.export_text()
        assert stats_of_home(poisoned.home).as_json()["suspended"][VICTIM]["reason"] == "poison"
        engine.run_once()
        engine.resume(VICTIM)
    words = [decision.reason for decision in decisions(poisoned.home)]
    assert [reason for reason in words if VICTIM in reason] == [f"suspended: {VICTIM}", f"resumed: {VICTIM}"]
    assert shown is not None and (shown.tick, shown.reason) == (2, "poison")
