"""The results that one task writes, of joins as of windows: rows in files of their queries, or only their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from watersmeet import points
from watersmeet.home import layout
from watersmeet.io.sinks import extension, result_folder, result_schema
from watersmeet.model import Query, Sink
from watersmeet.plan.ruleset import QueryOutput
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.emit.staged_file import StagedFile
from watersmeet.runtime.tick.orders import TaskReport, WritingOrder
from watersmeet.runtime.tick.tick import too_many_matches

HELD_BYTES = 32 << 20  # rows of all queries that wait to be written in one piece
COUNTS = "counts"  # in place of a query: the file of a task with the matches of all queries that only count them


class ResultFiles:
    """What one task writes for queries in a tick. What goes wrong for a query suspends it, and only it."""

    def __init__(
        self,
        order: WritingOrder,
        task: str,
        report: TaskReport,
        queries: Mapping[str, Query | QueryOutput],
        suspended: Collection[str] = (),
    ) -> None:
        """`task` tells the files from those of other tasks."""
        self._home, self._tick, self._attempt, self._task = Path(order.home), order.tick, order.attempt, task
        self._limits = order.rules.limits
        self._report, self._queries = report, queries
        self.suspended = Confinement(self._home, suspended, report.suspended)
        self._files: dict[str, StagedFile] = {}
        self._held: dict[str, list[pa.Table]] = {}  # by query: a write of few rows takes as long as one of many
        self._held_bytes = 0
        self._found: Counter[str] = Counter()  # matches, by query
        self._bytes: Counter[str] = Counter()  # before compression
        self._counted: Counter[str] = Counter()  # matches of queries that only count them

    @property
    def bytes(self) -> int:
        """Of all results, before compression."""
        return self._bytes.total()

    def only_counts(self, query: str) -> bool:
        return self._queries[query].sink.format == "count"

    def confined(self, query: str) -> AbstractContextManager[None]:
        """What is raised inside suspends the query."""
        return self.suspended.of(query, self._folder(query))

    def admits(self, query: str, matches: int) -> bool:
        """Count matches of a query; whether it is still to be answered."""
        self._found[query] += matches
        limit = self._limits.matches
        if limit and self._found[query] > limit:
            self.suspended.suspend(query, too_many_matches(limit))
        return query not in self.suspended

    def add(self, query: str, rows: pa.Table) -> None:
        """Take results of a query: write or count them, if it still admits them."""
        if rows.num_rows and query not in self.suspended and self.admits(query, rows.num_rows):
            if self.only_counts(query):
                self.count(query, rows.num_rows)
            else:
                self.write(query, rows)

    def write(self, query: str, rows: pa.Table) -> None:
        """Rows that were admitted, with the columns of the query's outputs."""
        self._bytes[query] += rows.nbytes
        limit = self._limits.result_bytes
        if limit and self._bytes[query] > limit:
            self.suspended.suspend(query, f"its results in a tick exceed {limit:,} bytes (option max_result_bytes)")
            return
        self._held.setdefault(query, []).append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= HELD_BYTES:
            for each in list(self._held):
                self._write_held(each)

    def count(self, query: str, matches: int) -> None:
        """Matches that were admitted, of a query that only counts them."""
        self._counted[query] += matches

    def close(self, query: str) -> None:
        """All rows of a query are written: report its file."""
        self._write_held(query)
        file = self._files.pop(query, None)
        if file is None:
            return
        with self.confined(query):
            if query not in self.suspended:
                result = file.close(query)
                points.reach("results.written", file.staged)
                self._report.results.append(result)
                self._report.counts.results[query] += result.rows
        if query in self.suspended:
            file.discard()

    def finish(self, counts: str = "") -> None:
        """Close all files; that of counts may have another name than the task."""
        for query in dict.fromkeys((*self._files, *self._held)):
            self.close(query)
        counted = {query: matches for query, matches in self._counted.items() if query not in self.suspended}
        if not counted:
            return
        rows = pa.table(
            {
                "tick": pa.array([self._tick] * len(counted), pa.int64()),
                "query": pa.array(list(counted)),
                "matches": pa.array(list(counted.values()), pa.int64()),
            }
        )
        name = layout.data_file(self._tick, self._attempt, counts or self._task, "parquet")
        file = StagedFile(self._home / layout.COUNTS, name, Sink(), rows.schema)
        file.write(rows)
        self._report.results.append(replace(file.close(COUNTS), rows=sum(counted.values())))
        self._report.counts.results.update(counted)

    def _folder(self, query: str) -> Path:
        return result_folder(self._home, query, self._queries[query].sink)

    def _write_held(self, query: str) -> None:
        tables = self._held.pop(query, [])
        self._held_bytes -= sum(table.nbytes for table in tables)
        if tables and query not in self.suspended:
            with self.confined(query):
                self._append(query, pa.concat_tables(tables))

    def _append(self, query: str, rows: pa.Table) -> None:
        asked = self._queries[query]
        schema = result_schema(asked.outputs)
        if query not in self._files:
            name = layout.data_file(self._tick, self._attempt, self._task, extension(asked.sink))
            self._files[query] = StagedFile(self._folder(query), name, asked.sink, schema)
        self._files[query].write(rows.rename_columns(schema.names).cast(schema))
        points.reach("results.write", self._files[query].staged)
