"""The arithmetic of grids, against its definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import ModelError
from watersmeet.model.sliding_window import SlidingWindow

grids = st.integers(1, 60).flatmap(
    lambda slide: st.integers(slide, 200).map(lambda length: SlidingWindow(length, slide))
)
times = st.integers(-500, 500)


def _starts(grid: SlidingWindow) -> list[int]:
    return [k * grid.slide for k in range(-800, 801)]


@given(grids, times)
def test_containing_windows_are_those_that_the_definition_names(grid: SlidingWindow, time: int) -> None:
    expected = [start for start in _starts(grid) if start <= time < grid.end(start)]
    assert (grid.first(time), grid.last(time)) == (expected[0], expected[-1])


@given(grids, times)
def test_first_window_that_begins(grid: SlidingWindow, time: int) -> None:
    assert grid.beginning(time) == min(start for start in _starts(grid) if start >= time)


@given(grids)
def test_slices_fill_every_window(grid: SlidingWindow) -> None:
    for start in _starts(grid)[:5]:
        assert start % grid.slice == 0
        assert grid.end(start) % grid.slice == 0


@pytest.mark.parametrize(("length", "slide"), [(10, 0), (10, 11), (0, 0), (10, -1)])
def test_a_slide_outside_of_its_range_is_rejected(length: int, slide: int) -> None:
    with pytest.raises(ModelError, match="slide above 0"):
        SlidingWindow(length, slide)
