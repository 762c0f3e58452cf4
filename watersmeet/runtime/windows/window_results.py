"""The results of windows: one task's files for one query, and what the driver must know of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from watersmeet import points
from watersmeet.home import layout
from watersmeet.io.sinks import extension, result_folder, result_schema
from watersmeet.model import Query, Sink
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.emit.query_results import COUNTS
from watersmeet.runtime.emit.staged_file import StagedFile
from watersmeet.runtime.tick.orders import ProbeReport
from watersmeet.runtime.tick.tick import too_many_matches


class Closing(Protocol):
    """An order to close windows."""

    @property
    def home(self) -> str: ...

    @property
    def tick(self) -> int: ...

    @property
    def attempt(self) -> str: ...

    @property
    def rules(self) -> Ruleset: ...


class WindowResults:
    """What one task writes for a windowed query in a tick. What goes wrong suspends the query."""

    def __init__(self, order: Closing, query: Query, task: str, report: ProbeReport) -> None:
        self._home, self._tick, self._attempt, self._task = Path(order.home), order.tick, order.attempt, task
        self._query, self._limits, self._report = query, order.rules.limits, report
        self._folder = result_folder(self._home, query.name, query.sink)
        self._schema = result_schema(query.outputs)
        self._confined = Confinement(self._home, (), report.suspended)
        self._file: StagedFile | None = None
        self._rows = self._bytes = 0

    @property
    def is_given_up(self) -> bool:
        return self._query.name in self._confined

    def write(self, rows: pa.Table) -> None:
        """Rows with the columns of the query's outputs."""
        if not rows.num_rows or self.is_given_up:
            return
        with self._confined.of(self._query.name, self._folder):
            self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes
            if self._limits.matches and self._rows > self._limits.matches:
                self._confined.suspend(self._query.name, too_many_matches(self._limits.matches))
            elif self._limits.result_bytes and self._bytes > self._limits.result_bytes:
                self._confined.suspend(self._query.name, too_many_bytes(self._limits.result_bytes))
            elif self._query.sink.format != "count":
                self._append(pa.Table.from_arrays(_cast(rows, self._schema), schema=self._schema))

    def _append(self, rows: pa.Table) -> None:
        if self._file is None:
            name = layout.data_file(self._tick, self._attempt, self._task, extension(self._query.sink))
            self._file = StagedFile(self._folder, name, self._query.sink, self._schema)
        self._file.write(rows)
        points.reach("results.write", self._file.staged)

    def finish(self) -> ProbeReport:
        name = self._query.name
        with self._confined.of(name, self._folder):
            if self._file is not None and not self.is_given_up:
                result = self._file.close(name)
                points.reach("results.written", self._file.staged)
                self._report.results.append(result)
            elif self._rows and not self.is_given_up:
                self._write_count()
        if self.is_given_up and self._file is not None:
            self._file.discard()
        elif not self.is_given_up and self._rows:
            self._report.counts.results[name] += self._rows
        return self._report

    def _write_count(self) -> None:
        rows = pa.table({"tick": [self._tick], "query": [self._query.name], "matches": [self._rows]})
        folder = self._home / layout.COUNTS
        # One folder for all queries, of which the task may answer several.
        task = f"{self._task}-{len(self._report.results)}"
        name = layout.data_file(self._tick, self._attempt, task, "parquet")
        file = StagedFile(folder, name, Sink(), rows.schema)
        file.write(rows)
        self._report.results.append(replace(file.close(COUNTS), rows=self._rows))


def _cast(rows: pa.Table, schema: pa.Schema) -> list[pa.ChunkedArray]:
    pairs = zip(rows.columns, schema, strict=True)
    return [column if column.type == field.type else column.cast(field.type) for column, field in pairs]


def too_many_bytes(limit: int) -> str:
    return f"its results in a tick exceed {limit:,} bytes (option max_result_bytes)"
