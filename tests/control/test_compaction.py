"""The log of changes is shortened: the same queries come back, also after a crash beside the replacement."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.two_streams import write
from watersmeet import Engine
from watersmeet.control import change_log
from watersmeet.control.change_log import Compaction, LoggedChange, append_entries, read_entries, shortened
from watersmeet.control.declarations import recall
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.home.dependencies import MarkedLog, check_dependencies
from watersmeet.home.manifest import Manifest
from watersmeet.model import Column, Stream
from watersmeet.pipeline import Pipeline

STREAM = "CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts FROM parquet '{1}';"
JOIN = "SELECT a.id AS a, b.id AS b FROM l [UNBOUNDED] a, r [UNBOUNDED] b WHERE a.k = b.k"
DECLARED, NAMES = ("d", "e"), ("d", "e", "x", "y", "z")


def entry(kind: str, name: str, at: int) -> LoggedChange:
    return LoggedChange(
        float(at), at, kind, name, 0.1, JOIN if kind == "add" else "", addition=str(at), resumed=str(at)
    )


def declared(home: Path) -> Pipeline:
    columns = (Column("ts", "timestamp"), Column("id", "bigint"), Column("k", "bigint"))
    pipeline = Pipeline(home=home)
    for name in "lr":
        pipeline = pipeline.with_stream(Stream(name, columns, "ts"))
    for name in DECLARED:
        pipeline = pipeline.with_query(pipeline.query(name, JOIN))
    return pipeline


def at_the_start() -> list[LoggedChange]:
    """What the first start has logged."""
    queries = [LoggedChange(0.0, 1, "add", name, 0.0, JOIN, declared=True) for name in DECLARED]
    return [*queries, *(LoggedChange(0.0, 1, "stream", name, 0.0, declared=True) for name in "lr")]


@given(steps=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=40), cut=st.integers(0, 40))
def test_the_same_queries_come_back(
    steps: list[tuple[str, bool]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A step adds a query that is absent; one that is there it resumes or drops. Part of the log is shortened twice."""
    present, entries = set(DECLARED), at_the_start()
    for at, (name, resumes) in enumerate(steps, 1):
        kind = "add" if name not in present else "resume" if resumes else "drop"
        entries.append(entry(kind, name, at))
        if kind != "resume":
            present ^= {name}
    short = shortened([*shortened(entries[:cut]), *entries[cut:]])
    assert len(short) <= len("lr") + 3 * len(NAMES)
    whole, home = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("short")
    append_entries(whole, entries)
    append_entries(home, short)
    expected, found = recall(whole, declared(whole), Manifest(50)), recall(home, declared(home), Manifest(50))
    assert (found.pipeline.queries, found.by_log) == (expected.pipeline.queries, expected.by_log)
    assert [edit for edit in found.edits if edit.what.startswith("query")] == []


def test_what_was_added_and_dropped_leaves_nothing_but_what_was_declared_and_dropped_does() -> None:
    entries = [entry("add", "x", 1), entry("drop", "x", 2)]
    assert shortened(entries) == []
    first = at_the_start()
    assert shortened([*first, entry("drop", "d", 3)]) == [*first, entry("drop", "d", 3)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(change_log, "LONGEST_LOG", 1000)
    return tmp_path


def changes(home: Path, first: int, count: int) -> None:
    for at in range(first, first + count):
        append_entries(home, [entry("add", f"q{at}", at), entry("drop", f"q{at}", at)])


def test_manifests_from_before_and_after_the_replacement_fit(home: Path) -> None:
    log = MarkedLog(home / layout.CHANGES)
    shortening = Compaction(home)
    changes(home, 0, 10)
    before = log.mark()
    changes(home, 10, 1)
    in_flight = log.mark()  # of a tick that commits after the replacement
    shortening.run(before)
    assert read_entries(home) == []
    after = log.mark()
    for mark in (before, in_flight, after):
        check_dependencies(home, Manifest(5, changes=mark), [])
    changes(home, 20, 10)
    size = (home / layout.CHANGES).stat().st_size
    shortening.run(in_flight)
    assert (home / layout.CHANGES).stat().st_size == size, "the manifest still needs the log before"
    shortening.run(log.mark())
    assert (home / layout.CHANGES).stat().st_size < size
    with pytest.raises(StateError, match="does not fit the state"):
        check_dependencies(home, Manifest(5, changes=before), [])


def test_a_log_that_was_replaced_by_another_is_rejected(home: Path) -> None:
    log = MarkedLog(home / layout.CHANGES)
    changes(home, 0, 10)
    before = log.mark()
    Compaction(home).run(before)
    rotated = layout.rotated(home / layout.CHANGES)
    rotated.write_bytes(rotated.read_bytes().replace(b"q1", b"q2"))
    with pytest.raises(StateError, match="does not fit the state"):
        check_dependencies(home, Manifest(5, changes=before), [])
    rotated.unlink()
    with pytest.raises(StateError, match="does not fit the state"):
        check_dependencies(home, Manifest(5, changes=before), [])
    check_dependencies(home, Manifest(5, changes=log.mark()), [])


def test_a_full_disk_leaves_the_log_as_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes(home, 0, 10)
    content = (home / layout.CHANGES).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(change_log, "replace_durably", full)
    Compaction(home).run(MarkedLog(home / layout.CHANGES).mark())
    assert (home / layout.CHANGES).read_bytes() == content


def test_the_log_of_a_running_engine_stays_short_and_is_recalled(home: Path) -> None:
    def engine() -> Engine:
        made = Engine(home=home / "home", executor="local", adaptive="off")
        for name in "lr":
            (home / name).mkdir(exist_ok=True)
            made.sql(STREAM.format(name, home / name))
        made.query("declared", JOIN)
        return made

    log = home / "home" / layout.CHANGES
    with engine() as running:
        for number in range(20):
            for name in "lr":
                write(home / name, [(number, number, 7)])
            running.run_once()
            running.query(f"q{number}", JOIN)
            if number == 5:
                running.drop("declared")
            if number >= 2:
                running.drop(f"q{number - 2}")
            assert log.stat().st_size < 6000
        running.run_once()
        counted = running.newest.totals.results
        assert set(counted) <= {"q18", "q19"}, "of queries that are no more nothing is counted"
    assert oct(os.stat(log).st_mode & 0o777) == "0o600"
    with engine() as again:
        again.run_once()
        assert {handle.name for handle in again.queries} == {"q18", "q19"}
