"""Which windows have rows. Those without give nothing, and event time may jump over any number of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from watersmeet.aggregate.kernels import windows_due
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.runtime.tick.orders import TAU_MAX, TAU_MIN, Due
from watersmeet.store.kernels import I64

_ALL = 1 << 60


def occupied(grid: SlidingWindow, due: Due, times: Iterable[I64], most: int = _ALL) -> list[int]:
    """The first windows, at most so many, among those that are due which contain one of these event times, in order."""
    opened = max(due.opened, grid.first(TAU_MIN))
    until = min(due.until, TAU_MAX + grid.slide)
    end = grid.end(until - grid.slide)
    slices = [np.unique(tau[(tau >= opened) & (tau < end)] // grid.slice) for tau in times]
    begins = np.unique(np.concatenate(slices)) * grid.slice if slices else np.empty(0, np.int64)
    length, slide, first, last = (np.array([value], np.int64) for value in (grid.range, grid.slide, opened, until))
    return [int(start) for start in windows_due(begins, length, slide, first, last, most)[1]]
