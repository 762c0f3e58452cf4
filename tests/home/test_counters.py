"""CPU time by stage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watersmeet.home import counters
from watersmeet.home.counters import GATHER, RESULTS, SLICING, Counters


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Microseconds that pass from look to look."""
    passing: list[int] = []

    def times() -> Iterator[int]:
        now = 0
        while True:
            yield now * 1000
            now += passing.pop(0)

    monkeypatch.setattr(counters, "thread_time_ns", times().__next__)
    return passing


def test_a_stage_has_no_time_of_the_stages_inside(clock: list[int]) -> None:
    """Otherwise the time of slices would count as that of joins, from which the weights of costs are measured."""
    counts = Counters()
    clock += [1, 20, 300, 4000, 50_000, 600_000]
    with counts.timed(GATHER):  # 1, 300 and 50,000 of its own
        with counts.timed(SLICING):
            pass
        with counts.timed(SLICING), pytest.raises(ValueError, match="poisoned"):
            raise ValueError("poisoned")
    clock += [7]
    with counts.timed(RESULTS):
        pass
    assert counts.spent == {GATHER: 50_301, SLICING: 4020, RESULTS: 7}


def test_stages_inside_of_stages_inside(clock: list[int]) -> None:
    counts = Counters()
    clock += [1, 20, 300, 4000, 50_000]
    with counts.timed(GATHER), counts.timed(RESULTS), counts.timed(SLICING):
        pass
    assert counts.spent == {SLICING: 300, RESULTS: 4020, GATHER: 50_001}
