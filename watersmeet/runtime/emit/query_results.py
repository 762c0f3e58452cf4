"""The results of queries: complete combinations go to files, or are only counted."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet import points
from watersmeet.home import layout
from watersmeet.home.counters import SLICING
from watersmeet.io.sinks import extension, result_folder, result_schema
from watersmeet.model import ColumnRef, Sink, member_column
from watersmeet.plan.ruleset import ResultRule
from watersmeet.runtime.emit.assemble import Assembly
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.emit.slicing import Slicing
from watersmeet.runtime.emit.staged_file import StagedFile
from watersmeet.runtime.tick.orders import ProbeOrder, ProbeReport
from watersmeet.runtime.tick.tick import too_many_matches
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import Words
from watersmeet.store.kernels import I64, count_bits

HELD_BYTES = 32 << 20  # rows of all queries that wait to be written in one piece
COUNTS = "counts"  # in place of a query: the file of a task with the matches of all queries that only count them


class QueryResults:
    """What one task writes for queries."""

    def __init__(self, order: ProbeOrder, task: str, report: ProbeReport) -> None:
        self.order = order
        self.task = task
        self.report = report
        self.counts = report.counts
        self._home = Path(order.home)
        self._rules = {rule.query: rule for rule in order.rules.results}
        self.suspended = Confinement(self._home, order.suspended, report.suspended)
        self._files: dict[str, StagedFile] = {}
        self._held: dict[str, list[pa.Table]] = {}  # by query: a write of few rows takes as long as one of many
        self._held_bytes = 0
        self._found: Counter[str] = Counter()  # matches, by query
        self._bytes: Counter[str] = Counter()  # before compression
        self._counted: dict[tuple[str, ...], I64] = {}  # by the queries of a group
        # Results of joins below windowed queries are no results of anyone: they are aggregated.
        self._slicings = {
            query: Slicing(order, (each.store for each in readings), f"{task}-{query}")
            for query, readings in order.rules.readings
            if query in self._rules
        }

    @property
    def bytes(self) -> int:
        """Of all results, before compression."""
        return self._bytes.total()

    def only_counts(self, query: str) -> bool:
        return self._rules[query].sink.format == "count"

    def confined(self, query: str) -> AbstractContextManager[None]:
        """What is raised inside suspends the query."""
        return self.suspended.of(query, self._folder(query))

    def admits(self, query: str, matches: int) -> bool:
        """Count matches of a query; whether it is still to be answered."""
        self._found[query] += matches
        limit = self.order.rules.limits.matches
        if limit and self._found[query] > limit:
            self.suspended.suspend(query, too_many_matches(limit))
        return query not in self.suspended

    def _folder(self, query: str) -> Path:
        return result_folder(self._home, query, self._rules[query].sink)

    def write(self, query: str, rows: Assembly) -> None:
        if query in self._slicings:
            with self.counts.timed(SLICING):
                outputs = self._outputs(self._rules[query], rows)
                self._slicings[query].add(_at_rest(outputs), rows.partial.latest)
            return
        outputs = self._outputs(self._rules[query], rows)
        self._bytes[query] += outputs.nbytes
        limit = self.order.rules.limits.result_bytes
        if limit and self._bytes[query] > limit:
            self.suspended.suspend(query, f"its results in a tick exceed {limit:,} bytes (option max_result_bytes)")
            return
        self._held.setdefault(query, []).append(outputs)
        self._held_bytes += outputs.nbytes
        if self._held_bytes >= HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        held, self._held, self._held_bytes = self._held, {}, 0
        for query, tables in held.items():
            if query not in self.suspended:
                with self.confined(query):
                    self._append(query, pa.concat_tables(tables))

    def _append(self, query: str, outputs: pa.Table) -> None:
        rule = self._rules[query]
        if query not in self._files:
            name = layout.data_file(self.order.tick, self.order.attempt, self.task, extension(rule.sink))
            self._files[query] = StagedFile(self._folder(query), name, rule.sink, result_schema(rule.outputs))
        self._files[query].write(outputs)
        points.reach("results.write", self._files[query].staged)

    def count(self, queries: tuple[str, ...], matches: int, sets: Words | None) -> None:
        """Count matches of a group of queries: for each match by its query set, or for all of the group."""
        counts = np.zeros(64, np.int64)
        if sets is None:
            counts[: len(queries)] += matches
        else:
            count_bits(sets, counts)
        self.add_counts(queries, counts)

    def add_counts(self, queries: tuple[str, ...], found: I64) -> None:
        """Count matches of a group of queries, by bit."""
        counts = self._counted.setdefault(queries, np.zeros(64, np.int64))
        counts += found
        limit = self.order.rules.limits.matches
        for bit in np.flatnonzero(counts[: len(queries)] > limit) if limit else ():
            self.suspended.suspend(queries[bit], too_many_matches(limit))

    def finish(self) -> None:
        """Close the files, and report them."""
        self._write_held()
        for query, file in self._files.items():
            with self.confined(query):
                if query not in self.suspended:
                    result = file.close(query)
                    points.reach("results.written", file.staged)
                    self.report.results.append(result)
                    self.counts.results[query] += result.rows
            if query in self.suspended:
                file.discard()
        for query, slicing in self._slicings.items():
            with self.confined(query):
                if query not in self.suspended:
                    with self.counts.timed(SLICING):
                        self.report.kept += slicing.finish(self.counts)
        self._file_counts()

    def _outputs(self, rule: ResultRule, rows: Assembly) -> pa.Table:
        member_of = dict(zip(rule.aliases, rule.members, strict=True))
        wanted: dict[int, dict[str, None]] = {}
        for output in rule.outputs:
            for column in output.expression.columns:
                wanted.setdefault(member_of[column.row], {})[column.name] = None
        found = rows.columns({member: list(names) for member, names in wanted.items()})
        alias_of = {member: alias for alias, member in member_of.items()}
        columns = {member_column(alias_of[member], name): values for (member, name), values in found.items()}
        computed = [output for output in rule.outputs if not isinstance(output.expression, ColumnRef)]
        if computed:
            # DuckDB wants a column even where every output is a constant.
            source = pa.table(columns) if columns else pa.table({"row": pa.nulls(len(rows), pa.int8())})
            done = evaluate(source, [output.expression.text for output in computed])
            for output, values, failed in zip(computed, done.values, done.failures, strict=True):
                columns[f"= {output.name}"] = values
                if failed:
                    self.counts.failed_values[rule.query] += failed
        schema = result_schema(rule.outputs)
        arrays = []
        for output, field in zip(rule.outputs, schema, strict=True):
            read = output.expression
            array = columns[read.label if isinstance(read, ColumnRef) else f"= {output.name}"]
            arrays.append(array.cast(field.type) if array.type != field.type else array)
        return pa.Table.from_arrays(arrays, schema=schema)

    def _file_counts(self) -> None:
        """The matches of queries that only count them: one small file of the task for all of these queries."""
        found: Counter[str] = Counter()
        for queries, counts in self._counted.items():
            for query, count in zip(queries, counts.tolist(), strict=False):
                if count and self.only_counts(query) and self.admits(query, count):
                    found[query] += count
        if not found:
            return
        rows = pa.table(
            {
                "tick": pa.array([self.order.tick] * len(found), pa.int64()),
                "query": pa.array(list(found)),
                "matches": pa.array(list(found.values()), pa.int64()),
            }
        )
        folder = self._home / layout.COUNTS
        name = layout.data_file(self.order.tick, self.order.attempt, f"{self.task}-{self.order.phase}", "parquet")
        file = StagedFile(folder, name, Sink(), rows.schema)
        file.write(rows)
        self.report.results.append(replace(file.close(COUNTS), rows=sum(found.values())))
        self.counts.results.update(found)


def _at_rest(rows: pa.Table) -> pa.RecordBatch:
    """Outputs in the types that the engine keeps: an instant is its UTC microseconds."""
    types = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in rows.schema]
    schema = pa.schema(list(zip(rows.schema.names, types, strict=True)))
    return rows.cast(schema).combine_chunks().to_batches()[0]
