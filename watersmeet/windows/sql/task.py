"""Windows over rows, in tasks: which windows have rows, and those that DuckDB computes.

Windows without rows give nothing, and event time may jump over any number of them. A task computes windows in the order
of their ends, those of all its queries together, for a limited time of a tick; the rest is left to the next ticks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet import points
from watersmeet.aggregate.kernels import windows_due
from watersmeet.errors import WatersmeetError
from watersmeet.home.counters import (
    RESULTS,
    TASK_JOBS,
    TASK_ROWS,
    TASK_WINDOWS,
)
from watersmeet.model.forms import TaskSql
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.tick.orders import TAU_MAX, TAU_MIN, TaskReport, WritingOrder
from watersmeet.store.guard import clock_of_this_thread
from watersmeet.store.kernels import I64
from watersmeet.windows.life import DueWindows
from watersmeet.windows.sql.in_duckdb import NoMemory, WindowBounds, close_windows, results, rows_fit
from watersmeet.windows.sql.plan import SQL, TASK, form_of_spark
from watersmeet.windows.sql.tick import OccupiedOrder, RowsOrder, SqlTicking, TaskSqlTicking
from watersmeet.windows.sql.window_rows import WindowRows
from watersmeet.windows.working import Handler, Host, Intake, Ticking

_ALL = 1 << 60
_MOST = 1000  # windows of a query in a tick
_SECONDS = 2.0  # of CPU time in a tick, after which no other window is begun


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


class TaskSqlWorking:
    name: ClassVar[str] = TASK
    ticking: ClassVar[Ticking] = TaskSqlTicking()

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def handlers(self) -> Mapping[type, Handler]:
        return {RowsOrder: self._compute}

    def intake(self, order: WritingOrder, stores: Collection[str], task: str) -> Intake:
        raise AssertionError("rows are stored as they are")

    def forget(self) -> None:
        close_windows()

    def _compute(self, order: RowsOrder, task: int, name: str) -> list[TaskReport]:
        computing = _Computing(order, task, f"{name}-r{task}", self._host)
        try:
            computing.run()
        except Exception as problem:
            queries = [due.query for due, _ in order.work[task]]
            return [TaskReport(failure=self._host.as_failure(problem, order.home, queries))]
        if computing.ran_out:
            self._host.release_memory()
        return [computing.report]


class _Computing:
    """One task of an order."""

    def __init__(self, order: RowsOrder, task: int, name: str, host: Host) -> None:
        self._order, self._home, self._limits = order, Path(order.home), order.rules.limits
        self._work = {due.query: (due, infos) for due, infos in order.work[task]}
        rules = [(order.rules.leaving if due.leaves else order.rules.window)[due.query] for due, _ in order.work[task]]
        self._queries = {rule.query.name: rule.query for rule in rules}
        self._sql: dict[str, TaskSql] = {rule.query.name: rule.details[0] for rule in rules}
        self._rows = WindowRows(lambda info: host.opened(self._home, info), self._columns())
        self.report = TaskReport()
        self._files = ResultFiles(order, name, self.report, self._queries)
        self._clock, self._used = clock_of_this_thread(), dict.fromkeys(self._work, 0.0)  # seconds, by query
        self._dropped: dict[str, float] = {}
        self.ran_out = False

    def _columns(self) -> dict[str, dict[str, str]]:
        """By stream those that some query reads, with their types."""
        found: dict[str, dict[str, str]] = {}
        for view in (view for sql in self._sql.values() for view in sql.views):
            types = {column.name: column.type for column in self._order.rules.store(view.stream).columns}
            found.setdefault(view.stream, {}).update((name, types[name]) for name in view.columns)
        return found

    def run(self) -> None:
        with self.report.counts.timed(TASK_WINDOWS):
            for (start, end), names in self._windows():
                self._window(start, end, names)
            with self.report.counts.timed(RESULTS):
                self._files.finish()
        self._files.count_work()

    def _windows(self) -> Iterator[tuple[tuple[int, int], list[str]]]:
        """The windows that have rows, in the order of their ends, each with its queries, while there is time."""
        found: dict[tuple[int, int], list[str]] = {}
        for name, (due, infos) in self._work.items():
            grid = self._queries[name].grid
            starts = occupied(grid, due, (self._rows.times(info) for info in infos), _MOST + 1)
            if starts[_MOST:]:
                self.report.left[name] = starts[_MOST]
            for start in starts[:_MOST]:
                found.setdefault((start, grid.end(start)), []).append(name)
        until = self._clock() + _SECONDS
        for at, window in enumerate(sorted(found, key=lambda ends: (ends[1], ends[0]))):
            if at and self._clock() > until:
                self.report.left |= {name: min(window[0], self.report.left.get(name, _ALL)) for name in found[window]}
            else:
                yield window, found[window]

    def _window(self, start: int, end: int, names: Sequence[str]) -> None:
        cut: dict[str, pa.Table] = {}  # by stream
        for name in names:
            if name in self._files.suspended or start >= self.report.left.get(name, _ALL):
                continue
            infos = self._work[name][1]
            count, size = self._rows.count(infos, start, end)
            if not rows_fit(size, self._limits.task_megabytes) and self._leave_to_spark(name, start):
                continue
            with self._files.confined(name):
                for stream in self._queries[name].streams:
                    if stream not in cut:
                        of_stream = [info for info in infos if info.store == stream]
                        cut[stream] = self._rows.of(stream, of_stream, start, end)
                self._answer(name, start, end, cut)
            points.reach("window.computed")
            self.report.counts.done[TASK_JOBS] += 1
            self.report.counts.done[TASK_ROWS] += count

    def _answer(self, name: str, start: int, end: int, cut: Mapping[str, pa.Table]) -> None:
        began, sql, megabytes = self._clock(), self._sql[name], self._limits.task_megabytes
        seconds = self._limits.window_seconds
        limit = WindowBounds(self._clock, began + seconds - self._used[name], self._home, name, seconds, self._dropped)
        limit.check()
        is_begun = False
        try:
            views = {view.name: cut[view.stream] for view in sql.views}
            for rows in results(sql, views, (start, end), limit, megabytes):
                is_begun = True
                with self.report.counts.timed(RESULTS):
                    self._files.add(name, rows)
                if name in self._files.suspended:
                    break
        except NoMemory:
            self.ran_out = True
            if is_begun or not self._leave_to_spark(name, start):
                raise
        self._used[name] += self._clock() - began

    def _leave_to_spark(self, name: str, start: int) -> bool:
        """Whether Spark computes a window in the place of this task: it may compute so many in a tick."""
        if form_of_spark(self._queries[name]) is None:
            return False
        if self._limits.windows and sum(map(len, self.report.for_spark.values())) >= self._limits.windows:
            self.report.left[name] = start
        else:
            self.report.for_spark.setdefault(name, []).append(start)
        return True


def occupied(grid: SlidingWindow, due: DueWindows, times: Iterable[I64], most: int = _ALL) -> list[int]:
    """The first windows, at most so many, among those that are due which contain one of these event times, in order."""
    opened = max(due.opened, grid.first(TAU_MIN))
    until = min(due.until, TAU_MAX + grid.slide)
    end = grid.end(until - grid.slide)
    slices = [np.unique(tau[(tau >= opened) & (tau < end)] // grid.slice) for tau in times]
    begins = np.unique(np.concatenate(slices)) * grid.slice if slices else np.empty(0, np.int64)
    length, slide, first, last = (np.array([value], np.int64) for value in (grid.range, grid.slide, opened, until))
    return [int(start) for start in windows_due(begins, length, slide, first, last, most)[1]]
