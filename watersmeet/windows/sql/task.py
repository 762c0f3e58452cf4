"""Which windows have rows. Those without give nothing, and event time may jump over any number of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from watersmeet.aggregate.kernels import windows_due
from watersmeet.errors import WatersmeetError
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.runtime.tick.orders import TAU_MAX, TAU_MIN, WritingOrder
from watersmeet.store.kernels import I64
from watersmeet.windows.life import DueWindows
from watersmeet.windows.sql.plan import SQL
from watersmeet.windows.sql.tick import OccupiedOrder, SqlTicking
from watersmeet.windows.working import Handler, Host, Intake, Ticking

_ALL = 1 << 60


class SqlWorking:
    name: ClassVar[str] = SQL
    ticking: ClassVar[Ticking] = SqlTicking()

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def handlers(self) -> Mapping[type, Handler]:
        return {OccupiedOrder: self._occupied}

    def intake(self, order: WritingOrder, stores: Collection[str], task: str) -> Intake:
        raise AssertionError("rows are stored as they are")

    def forget(self) -> None:
        pass

    def _occupied(self, order: OccupiedOrder, task: int, name: str) -> list[list[int] | WatersmeetError]:
        """For each query the first windows with rows, and one more than are computed; or why that is not known."""
        home, found = Path(order.home), list[list[int] | WatersmeetError]()
        most = () if order.share is None else (order.share + 1,)
        for due, grid, infos in order.asked:
            try:
                found.append(occupied(grid, due, (self._host.opened(home, info).tau for info in infos), *most))
            except Exception as problem:
                found.append(self._host.as_failure(problem, order.home, (due.query,)))
        return found


def occupied(grid: SlidingWindow, due: DueWindows, times: Iterable[I64], most: int = _ALL) -> list[int]:
    """The first windows, at most so many, among those that are due which contain one of these event times, in order."""
    opened = max(due.opened, grid.first(TAU_MIN))
    until = min(due.until, TAU_MAX + grid.slide)
    end = grid.end(until - grid.slide)
    slices = [np.unique(tau[(tau >= opened) & (tau < end)] // grid.slice) for tau in times]
    begins = np.unique(np.concatenate(slices)) * grid.slice if slices else np.empty(0, np.int64)
    length, slide, first, last = (np.array([value], np.int64) for value in (grid.range, grid.slide, opened, until))
    return [int(start) for start in windows_due(begins, length, slide, first, last, most)[1]]
