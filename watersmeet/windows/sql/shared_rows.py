"""Rows of a window that several queries read, or one query several times: they are read once, and Spark holds them
while the windows of a tick are computed.

To read them takes a Python process for each view of each query, and that costs more than all that Spark does with a
window of few rows. A task for whose rows another one is reading waits; if that one fails, it reads them itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from watersmeet.model.forms import View
from watersmeet.windows.sql.tick import BatchOrder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Rows = tuple[str, int, int]  # a stream, and the begin and end of a window
Read = Callable[[BatchOrder, View], "DataFrame"]


class SharedRows:
    """What windows of few rows of one tick have in common. The caller has the lock under which views are made."""

    def __init__(self, orders: Iterable[BatchOrder]) -> None:
        self._readers: Counter[_Rows] = Counter()
        self._columns: dict[_Rows, set[str]] = {}
        self._held: dict[_Rows, DataFrame] = {}
        self._done: Counter[_Rows] = Counter()  # of the readers
        for order in orders:
            for view in order.sql.views:
                rows = _rows(order, view)
                self._readers[rows] += _times(order, view)
                self._columns.setdefault(rows, set()).update(view.columns)

    def of(self, order: BatchOrder, view: View, read: Read) -> DataFrame:
        """The rows of a view, with its columns and those of all others that read them."""
        rows = _rows(order, view)
        if self._readers[rows] <= 1:
            return read(order, view)
        if rows not in self._held:
            self._held[rows] = read(order, View(view.name, view.stream, tuple(sorted(self._columns[rows])))).cache()
        return self._held[rows]

    def done(self, order: BatchOrder) -> None:
        """A window is computed; what nobody else will read is let go. A tick may close any number of windows."""
        for view in order.sql.views:
            rows = _rows(order, view)
            self._done[rows] += _times(order, view)
            if self._done[rows] == self._readers[rows] and rows in self._held:
                self._held.pop(rows).unpersist()

    def close(self) -> None:
        for frame in self._held.values():
            frame.unpersist()


def _rows(order: BatchOrder, view: View) -> _Rows:
    return view.stream, order.start, order.end


def _times(order: BatchOrder, view: View) -> int:
    """How often the text of the query reads a view."""
    return order.sql.text.count(f"`{view.name}`")
