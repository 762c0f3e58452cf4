"""The limits for the memory of a process and for the time of an evaluation."""

from __future__ import annotations

import resource

import pytest

from tests.support.waiting import eventually
from watersmeet.private_duckdb import connect
from watersmeet.store import guard
from watersmeet.store.guard import End, bounded, clock_of_this_thread, memory


def _limit() -> int:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def test_what_runs_beside_has_memory_besides_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_reserved", lambda: 0)
    unlimited = _limit()
    try:
        with memory.beside(10):
            assert _limit() == unlimited, "there is no limit to raise"
            memory.limit(500_000)
            assert _limit() == 500_010 << 20
        assert _limit() == 500_000 << 20
        with memory.beside(10):
            assert _limit() == 500_010 << 20
    finally:
        memory.limit(0)
    assert _limit() == unlimited


def test_an_evaluation_is_interrupted_when_the_clock_of_its_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes by any other clock."""
    monkeypatch.setattr(guard, "_LOOK", 0.001)
    connection = connect()
    endless = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range + b.range = 7"
    with pytest.raises(TimeoutError, match="option expression_seconds"), bounded(connection, End(lambda: 2.0, 2.0)):
        connection.sql(endless).fetchall()
    looks: list[float] = []

    def stands_still() -> float:
        looks.append(1.0)
        return 1.0

    with bounded(connection, End(stands_still, 2.0)):
        while not looks:
            assert connection.sql("SELECT count(*) FROM range(100000)").fetchall() == [(100_000,)]


def test_the_clock_of_a_thread_counts_what_it_computes() -> None:
    clock = clock_of_this_thread()
    before = clock()
    eventually(lambda: clock() > before)  # by looking
