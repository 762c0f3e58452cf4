"""Which windows have rows. Those without give nothing, and event time may jump over any number of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from watersmeet.model.windowed import Grid
from watersmeet.runtime.tick.orders import Due
from watersmeet.store.kernels import I64


def occupied(grid: Grid, due: Due, times: Iterable[I64]) -> list[int]:
    """The windows among those that are due which contain one of these event times, in order."""
    end = grid.end(due.until - grid.slide)
    slices = [np.unique(tau[(tau >= due.opened) & (tau < end)] // grid.slice) for tau in times]
    begins = np.unique(np.concatenate(slices)) * grid.slice if slices else np.empty(0, np.int64)
    last = begins // grid.slide * grid.slide
    found: list[I64] = []
    for back in range(0, grid.range, grid.slide):
        starts = last - back
        found.append(np.unique(starts[(starts + grid.range > begins) & (starts >= due.opened) & (starts < due.until)]))
    return [int(start) for start in np.unique(np.concatenate(found))]
