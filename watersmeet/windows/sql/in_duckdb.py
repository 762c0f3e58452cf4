"""Windows in a DuckDB of a task, within the limits of their query: of time, of memory, and until it is dropped.

The DuckDB has less memory than the task: what does not fit fails, and the task continues without that query.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.home.signs import dropped, engine_stops
from watersmeet.model.forms import END, START, TaskSql
from watersmeet.private_duckdb import connect
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.store.evaluate import CAREFUL
from watersmeet.store.guard import End, bounded

BLOCK = 65_536  # rows of results at a time
_NO_MEMORY = "Out of Memory"
_SHARE = 4  # DuckDB has so much less memory than a task,
_ROWS_SHARE = 4  # and the rows of a window are at most so much less than that


class NoMemory(RunError):
    """DuckDB has no memory for a window."""


def rows_fit(size: int, task_megabytes: int) -> bool:
    """Whether rows of so many bytes are computed by a task; 0 megabytes: it has no limit."""
    return not task_megabytes or size * _SHARE * _ROWS_SHARE <= task_megabytes << 20


@lru_cache(maxsize=2)  # for two engines with other limits
def _connection(task_megabytes: int) -> duckdb.DuckDBPyConnection:
    atexit.register(_connection.cache_clear)
    limit = {"memory_limit": f"{max(16, task_megabytes // _SHARE)}MB"} if task_megabytes else {}
    return connect({"disabled_optimizers": CAREFUL, "temp_directory": "", **limit})


def close_windows() -> None:
    """Free the memory; the next window opens the database again."""
    _connection.cache_clear()


@dataclass(frozen=True)
class WindowBounds(End):
    """When the windows of a query in a tick are interrupted; the signs of the home count as well."""

    home: Path
    query: str
    seconds: float
    dropped: dict[str, float]  # since when it is known that queries were dropped, for all queries of a task

    @property
    def is_over(self) -> bool:
        return self._why() is not None

    @property
    def problem(self) -> Exception:
        return self._why() or RunError("it was interrupted")

    def check(self) -> None:
        """Raise if nothing more is to be computed for the query."""
        problem = self._why()
        if problem is not None:
            raise problem

    def _why(self) -> RunError | None:
        if engine_stops(self.home):
            return Stopped("the engine stops, and does not wait for this tick")
        if self.seconds and super().is_over:
            return RunError(f"its windows of a tick took more than {self.seconds:g} seconds (option window_seconds)")
        now = time.monotonic()
        for query, patience in dropped(self.home).items():
            if now - self.dropped.setdefault(query, now) >= patience and query == self.query:
                return RunError("it was dropped")
        return None


def results(
    sql: TaskSql, rows: Mapping[str, pa.Table], window: tuple[int, int], limit: WindowBounds, task_megabytes: int
) -> Iterator[pa.Table]:
    """The results of a window, some at a time; `rows` has those of each view."""
    try:
        connection = _connection(task_megabytes)
        with bounded(connection, limit):
            for name, micros in zip((START, END), window, strict=True):
                connection.execute(f"SET VARIABLE {name} = CAST({micros} AS BIGINT)")
            try:
                for view, table in rows.items():
                    connection.register(view, table)
                for batch in connection.sql(sql.text).to_arrow_reader(BLOCK):
                    yield pa.Table.from_batches([batch])
            finally:
                for view in rows:
                    connection.unregister(view)
    except (duckdb.Error, OSError, MemoryError) as problem:  # an OSError is one of DuckDB, in a stream of results
        if limit.is_over:
            raise limit.problem from None
        if isinstance(problem, MemoryError) or _NO_MEMORY in str(problem):
            close_windows()
            raise NoMemory("a task has no memory for its windows (option task_memory)") from None
        if isinstance(problem, duckdb.FatalException | duckdb.InternalException | duckdb.ConnectionException):
            close_windows()  # such a database answers nothing more
        raise
