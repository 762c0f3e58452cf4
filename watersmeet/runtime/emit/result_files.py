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
from watersmeet.home.counters import RESULT_BYTES, RESULT_FILES, RESULT_ROWS
from watersmeet.io.sinks import extension, may_wait, result_folder, result_schema
from watersmeet.model import Query, Sink
from watersmeet.plan.ruleset import QueryOutput
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.emit.staged_file import StagedFile
from watersmeet.runtime.emit.waiting_results import WaitingResults, as_stream
from watersmeet.runtime.tick.orders import TaskReport, WritingOrder
from watersmeet.runtime.tick.tick import too_many_matches

HELD_BYTES = 32 << 20  # rows of all queries that wait to be written in one piece
MANY = 32  # files of few rows that a task writes at once; if it had more, they wait in one file instead
FEW_BYTES = 1 << 17  # results of a query that may wait, before compression: more take longer to write twice than a file
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
        self._at_once = order.at_once if order.rules.delays else None  # None: those of all queries
        self._waiting = WaitingResults(self._home, layout.waiting_file(order.tick, order.attempt, task))
        self._held: dict[str, list[pa.Table]] = {}  # by query: a write of few rows takes as long as one of many
        self._held_bytes = Counter[str]()  # by query,
        self._all_held = 0  # and of all
        self._folders: dict[str, Path] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._found: Counter[str] = Counter()  # matches, by query
        self._bytes: Counter[str] = Counter()  # before compression
        self._counted: Counter[str] = Counter()  # matches of queries that only count them

    def count_work(self) -> None:
        """Count what this task has done for results."""
        done, report = self._report.counts.done, self._report
        done[RESULT_ROWS] += sum(file.rows for file in report.results) + sum(each.file.rows for each in report.waiting)
        done[RESULT_BYTES] += self._bytes.total()
        done[RESULT_FILES] += len(report.results) + len(report.waiting)

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
        size = rows.nbytes
        self._bytes[query] += size
        limit = self._limits.result_bytes
        if limit and self._bytes[query] > limit:
            self.suspended.suspend(query, f"its results in a tick exceed {limit:,} bytes (option max_result_bytes)")
            return
        self._held.setdefault(query, []).append(rows)
        self._held_bytes[query] += size
        self._all_held += size
        if self._all_held >= HELD_BYTES:
            self._write_all_held(but=query)  # of which there may be more, and one write takes less time than two

    def count(self, query: str, matches: int) -> None:
        """Matches that were admitted, of a query that only counts them."""
        self._counted[query] += matches

    def close(self, query: str) -> None:
        """All rows of a query are here: report its file, if it has one by now."""
        if query in self._files:
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
        self._write_all_held()
        for query in list(self._files):
            self.close(query)
        if waiting := self._waiting.close():
            self._report.waiting.append(waiting)
            self._report.counts.results.update(waiting.rows)
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

    def schema(self, query: str) -> pa.Schema:
        """Of the results of a query."""
        if query not in self._schemas:
            self._schemas[query] = result_schema(self._queries[query].outputs)
        return self._schemas[query]

    def _folder(self, query: str) -> Path:
        if query not in self._folders:
            self._folders[query] = result_folder(self._home, query, self._queries[query].sink)
        return self._folders[query]

    def _write_all_held(self, but: str = "") -> None:
        """Write what is held: few rows of many queries into one file, in which they wait, all else to its query. `but`
        is held, unless it has most of it."""
        few = [query for query in self._held if query != but and self._may_wait(query)]
        for query in few if len(few) > MANY else ():
            rows = self._taken(query)
            if rows is not None:
                content: pa.Buffer | None = None
                with self.confined(query):
                    content = as_stream(rows)
                if content is not None:  # a file that cannot be written belongs to all of them
                    self._waiting.add(query, self._queries[query].sink, rows.num_rows, content)
        for query in list(self._held):
            if query != but or 2 * self._held_bytes[query] > HELD_BYTES:
                self._write_held(query)

    def _may_wait(self, query: str) -> bool:
        if self._at_once is None or query in self._at_once or query in self._files:
            return False
        return may_wait(self._queries[query].sink) and self._held_bytes[query] < FEW_BYTES

    def _taken(self, query: str) -> pa.Table | None:
        """What is held of a query, as it asks for it; nothing if it is suspended by now."""
        tables = self._held.pop(query, [])
        self._all_held -= self._held_bytes.pop(query, 0)
        if tables and query not in self.suspended:
            with self.confined(query):
                return _with_schema(tables[0] if len(tables) == 1 else pa.concat_tables(tables), self.schema(query))
        return None

    def _write_held(self, query: str) -> None:
        rows = self._taken(query)
        if rows is not None:
            with self.confined(query):
                self._append(query, rows)

    def _append(self, query: str, rows: pa.Table) -> None:
        sink = self._queries[query].sink
        if query not in self._files:
            name = layout.data_file(self._tick, self._attempt, self._task, extension(sink))
            self._files[query] = StagedFile(self._folder(query), name, sink, rows.schema)
        self._files[query].write(rows)
        points.reach("results.write", self._files[query].staged)


def _with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns in their order, with these names and types."""
    pairs = zip(rows.columns, schema.types, strict=True)
    columns = [column if column.type.equals(kind) else column.cast(kind) for column, kind in pairs]
    return pa.Table.from_arrays(columns, schema=schema)
