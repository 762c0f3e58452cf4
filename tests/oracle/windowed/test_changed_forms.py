"""Queries whose form changes while their windows are open: each window is answered once, and as DuckDB answers it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.windowed.queries import declaration, one_stream, rows, two_streams
from tests.oracle.windowed.test_slices import POINTS, randoms
from tests.support.duckdb_windows import DuckdbWindows
from tests.support.every_form import in_every_form
from tests.support.examples import examples
from tests.support.many_keys import FEW, MANY, SOME, as_many_keys
from tests.support.windowed import SECOND, Asked, WindowedRun, kinds_of
from watersmeet.adapt.origins_file import recall_windows
from watersmeet.adapt.plan_keeper import first_plan
from watersmeet.errors import RunError
from watersmeet.options import Options


def run_of(folder: str, lateness: int, partitions: int, limit: int = 16, retained: bool = True) -> WindowedRun:
    return WindowedRun(
        Path(folder) / "home",
        declaration(lateness, retained),
        partitions,
        settings={"windows_per_tick": limit},
        drivers=(DuckdbWindows,),
        build=in_every_form,
    )


def two_rows(random: Random) -> Asked:
    """A join of two streams that gives rows."""
    length, slide = random.choice([(10, 5), (7, 2), (9, 3)])
    window = f" [RANGE {length} SECONDS SLIDE {slide} SECONDS]"
    text = "SELECT {} AS b, x.s, y.w FROM r{} x JOIN t{} y ON x.k = y.k WHERE x.v > 0"
    return Asked(text.format("window_start", window, window), text.format("{start}", "", ""))


@settings(max_examples=examples(30))
@given(randoms, st.sampled_from([1, 3]), st.sampled_from([FEW, SOME, MANY]), st.sampled_from([1, 16]))
def test_forms_change_every_few_ticks(random: Random, partitions: int, keys: str, limit: int) -> None:
    """Each query begins in one of its forms; then all change to another one, or some cannot yet. Queries come and go,
    the engine dies, and starts with another number of partitions."""
    with tempfile.TemporaryDirectory() as folder, as_many_keys(keys):
        run = run_of(folder, random.choice([0, 4, 12]), partitions, limit)
        names = iter(f"q{at}" for at in range(1000))

        def add(backfill: bool = False, addition: str = "") -> None:
            asked = random.choice([one_stream, two_streams, two_streams, two_rows])(random)
            kinds = kinds_of(in_every_form("q", asked.sql, run.streams))
            first = "" if backfill else random.choice(kinds)  # one that is filled has the form that can be
            run.add(next(names), asked, backfill, addition, first, may_change=bool(first))

        for _ in range(random.randint(1, 3)):
            add()
        now = random.choice([0, 1_700_000_000])
        for number in range(random.randint(6, 14)):
            now += random.choice([0, 2, 6, 30])
            arriving = {"r": rows(random, "r", now, 5), "t": rows(random, "t", now + random.choice([0, 8]), 5)}
            run.tick(arriving, random.choice(POINTS) if random.random() < 0.1 else "")
            if random.random() < 0.5:
                present = [kind for life in run.lives.values() for kind in kinds_of(life.query)]
                run.change(random.choice(sorted(set(present))))
            event, active = random.random(), [name for name, life in run.lives.items() if life.active]
            if event < 0.1:
                add(backfill=random.random() < 0.3, addition=f"x{number}")
            elif event < 0.15 and len(active) > 1:
                run.settle()  # what is due and was left to another tick
                run.drop(random.choice(active))
            elif event < 0.3:
                run.partitions = random.choice([partitions, random.randint(1, 4)])
                run.restart()
        run.flush(random.choice(["", "window.after", "manifest.linked"]))
        run.check()


COUNTED = Asked(
    "SELECT window_start, x.k, count(*) AS n FROM r [RANGE 20 SECONDS SLIDE 5 SECONDS] x "
    "JOIN t [RANGE 20 SECONDS SLIDE 5 SECONDS] y ON x.k = y.k GROUP BY x.k",
    "SELECT {start}, x.k, count(*) FROM r x JOIN t y ON x.k = y.k GROUP BY x.k",
)


def test_the_form_that_is_left_goes_with_its_last_window() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = run_of(folder, 0, 1, retained=False)
        run.add("q", COUNTED, kind="factorized", may_change=True)
        random = Random(1)

        def reach(now: int) -> None:
            while min(run.newest.get(name, 0) for name in ("r", "t")) < now * SECOND:
                run.tick({name: rows(random, name, now, 0).slice(0, 3) for name in ("r", "t")})

        def rules() -> list[tuple[str, bool]]:
            return [(rule.query.form.kind, rule.leaves) for rule in run.loop.plan.rules.windows]

        reach(101)
        run.change("pairs")
        first = run.leaving["q"]
        assert first == 105 * SECOND, "the first window that begins after all rows so far"
        assert rules() == [("pairs", False), ("factorized", True)]
        factors = {store for store, _ in run.loop.plan.rules.leaving["q"].reads}
        assert factors <= run.loop.plan.rules.window_stores.keys()
        reach(106)
        run.change("factorized")  # it waits until the first change is done
        assert rules() == [("pairs", False), ("factorized", True)] and run.leaving["q"] == first
        run.restart()
        assert rules() == [("pairs", False), ("factorized", True)] and run.leaving["q"] == first
        reach(121)
        assert run.manifest.windows["q"] == first, "the windows that the old form has are closed"
        assert not run.leaving
        run.change("factorized")
        assert rules() == [("factorized", False), ("pairs", True)] and run.leaving["q"] == 125 * SECOND
        assert factors.isdisjoint(bucket.store for bucket in run.manifest.buckets), "they were of the first form"
        reach(170)
        run.settle()  # a tick closes windows of one form; the next ones those of the other
        run.change("factorized")
        assert rules() == [("factorized", False)]
        run.flush()
        run.check()


@pytest.mark.parametrize("leaving", [False, True])
def test_a_home_of_spark_goes_on_without_it(leaving: bool) -> None:
    """Tasks compute the windows that Spark was to compute; none is lost because another form would be cheaper."""
    with tempfile.TemporaryDirectory() as folder:
        run, random = run_of(folder, 0, 1, retained=False), Random(0)
        run.add("q", two_rows(random), kind="batch", may_change=True)
        for now in (50, 52, 55):
            run.tick({name: rows(random, name, now, 3) for name in ("r", "t")})
        if leaving:
            run.change("pair rows")
        life = run.lives["q"]
        forms = tuple(form for form in life.query.forms if form.kind != "batch")
        life.query, run.kinds = replace(life.query, form=forms[0], forms=forms), {}
        run.restart()
        rules = [(rule.query.form.kind, rule.leaves) for rule in run.loop.plan.rules.windows]
        assert rules == ([("pair rows", False), ("task", True)] if leaving else [("task", False)])
        for now in (60, 65, 70, 75):
            run.tick({name: rows(random, name, now, 3) for name in ("r", "t")})
        run.flush()
        run.check()


@pytest.mark.parametrize("leaving", [False, True])
def test_windows_that_only_spark_computes_are_not_lost_without_it(leaving: bool) -> None:
    """The start ends with an error as long as such windows have rows."""
    with tempfile.TemporaryDirectory() as folder:
        run, random = run_of(folder, 0, 1, retained=False), Random(0)
        run.add("q", two_rows(random), kind="batch", may_change=True)
        run.tick({name: rows(random, name, 50, 3) for name in ("r", "t")})
        if leaving:
            run.change("pair rows")
        life, manifest = run.lives["q"], run.manifest
        pair_rows = next(form for form in life.query.forms if form.kind == "pair rows")
        query = replace(life.query, form=pair_rows, forms=(pair_rows,))
        remembered = recall_windows(run.home, lambda name, text: life.query)
        start = partial(first_plan, run.home, streams=(*run.streams.values(),), queries=[query], options=Options())
        with pytest.raises(RunError, match="query q: Spark was to compute its open windows"):
            start(manifest, sample=lambda stream: None, remembered=remembered)
        empty = replace(manifest, windows={"q": max(manifest.newest.values()) + 1})
        assert start(empty, sample=lambda stream: None, remembered=remembered)[1] == {}


def test_a_form_that_finds_all_it_needs_takes_over_at_once() -> None:
    """Rows are preserved, so that the open windows can be computed from them as well."""
    with tempfile.TemporaryDirectory() as folder:
        run = run_of(folder, 0, 1)
        run.add("q", COUNTED, kind="factorized", may_change=True)
        random = Random(2)
        for now in (50, 52, 55):
            run.tick({name: rows(random, name, now, 0) for name in ("r", "t")})
        opened = run.manifest.windows["q"]
        run.change("batch")
        assert not run.leaving and run.manifest.windows["q"] == opened
        run.tick({name: rows(random, name, 60, 0) for name in ("r", "t")})
        run.change("pairs")
        assert run.leaving["q"] > run.manifest.windows["q"], "results of the join are not found among stored rows"
        run.flush()
        run.check()
