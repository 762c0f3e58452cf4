"""The results of joins: complete combinations become rows of their queries, or are only counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.home.counters import RESULT_ROWS, SLICING
from watersmeet.model import ColumnRef, Output, member_column
from watersmeet.plan.ruleset import QueryOutput
from watersmeet.runtime.emit.assemble import Combinations
from watersmeet.runtime.emit.result_files import ResultFiles
from watersmeet.runtime.tick.orders import ProbeOrder, TaskReport
from watersmeet.runtime.tick.tick import too_many_matches
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import Words
from watersmeet.store.kernels import I64, count_bits
from watersmeet.windows.working import IntakeOf


@dataclass(frozen=True)
class _Reads:
    """What the outputs of a query are made of."""

    wanted: dict[int, list[str]]  # by member, the columns to read
    names: dict[tuple[int, str], str]  # how expressions name them
    computed: list[Output]
    sources: list[str]  # by output, the column that has it in the end

    @classmethod
    def of(cls, rule: QueryOutput) -> _Reads:
        member_of = dict(zip(rule.aliases, rule.members, strict=True))
        columns = dict.fromkeys(column for output in rule.outputs for column in output.expression.columns)
        wanted: dict[int, dict[str, None]] = {}
        names: dict[tuple[int, str], str] = {}
        for column in columns:
            wanted.setdefault(member_of[column.row], {})[column.name] = None
        alias_of = {member: alias for alias, member in member_of.items()}
        for member, of_member in wanted.items():
            names |= {(member, name): member_column(alias_of[member], name) for name in of_member}
        return cls(
            {member: list(of_member) for member, of_member in wanted.items()},
            names,
            [output for output in rule.outputs if not isinstance(output.expression, ColumnRef)],
            [
                output.expression.label if isinstance(output.expression, ColumnRef) else f"= {output.name}"
                for output in rule.outputs
            ],
        )


class QueryResults:
    """What one task finds for queries by probing."""

    def __init__(self, order: ProbeOrder, task: str, report: TaskReport, intake: IntakeOf) -> None:
        """`intake` gives what takes the results of the join below a windowed query."""
        self.order = order
        self.task = task
        self.report = report
        self.counts = report.counts
        self._rules = {rule.query: rule for rule in order.rules.results}
        self.files = ResultFiles(order, task, report, self._rules, order.suspended)
        self._reads: dict[str, _Reads] = {}
        self._counted: dict[tuple[str, ...], I64] = {}  # by the queries of a group
        # Results of joins below windowed queries are no results of anyone.
        self._intakes = {
            rule.query.name: intake(order, rule, f"{task}-{rule.query.name}")
            for rule in order.rules.windows
            if rule.query.join is not None
        }

    def are_of_windows(self, queries: Sequence[str]) -> bool:
        """Whether all results of these queries go into stores of windows."""
        return all(query in self._intakes for query in queries)

    def alike(self, queries: tuple[str, ...]) -> list[tuple[int, ...]]:
        """Which queries of a group have equal rows, by their bits."""
        found: dict[str, tuple[int, ...]] = {}
        for bit, query in enumerate(queries):
            content = self._rules[query].content
            found[content] = (*found.get(content, ()), bit)
        return list(found.values())

    def put_together(self, queries: Sequence[str], rows: Combinations) -> pa.Table:
        """The rows of queries that are alike. What cannot be computed counts for each of them."""
        table, failed = self._outputs(queries[0], rows)
        for query in queries if failed else ():
            self.counts.failed_values[query] += failed
        return table

    def write(self, query: str, outputs: pa.Table, rows: Combinations) -> None:
        if query not in self._intakes:
            self.files.write(query, outputs)
            return
        intake = self._intakes[query]
        named = outputs.rename_columns([output.name for output in self._rules[query].outputs])
        self.counts.done[RESULT_ROWS] += outputs.num_rows
        with self.counts.timed(SLICING):
            intake.add(_at_rest(named), rows.latest, rows.earliest() if intake.wants_earliest else None)

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
            self.files.suspended.suspend(queries[bit], too_many_matches(limit))

    def finish(self) -> None:
        """Close the files, and report them."""
        for query, taken in self._intakes.items():
            with self.files.confined(query):
                if query not in self.files.suspended:
                    with self.counts.timed(SLICING):
                        self.report.kept += taken.finish(self.counts)
            if query in self.files.suspended:
                self.report.kept += taken.abandon()
        for queries, counts in self._counted.items():
            for query, count in zip(queries, counts.tolist(), strict=False):
                if count and self.files.only_counts(query) and self.files.admits(query, count):
                    self.files.count(query, count)
        self.files.finish(f"{self.task}-{self.order.phase}")

    def _outputs(self, query: str, rows: Combinations) -> tuple[pa.Table, int]:
        """The outputs, and how many of their values could not be computed."""
        if query not in self._reads:
            self._reads[query] = _Reads.of(self._rules[query])
        reads = self._reads[query]
        columns = {reads.names[column]: values for column, values in rows.columns(reads.wanted).items()}
        computed, failures = reads.computed, 0
        if computed:
            # DuckDB wants a column even where every output is a constant.
            source = pa.table(columns) if columns else pa.table({"row": pa.nulls(len(rows), pa.int8())})
            done = evaluate(source, [output.expression.text for output in computed])
            for output, values, failed in zip(computed, done.values, done.failures, strict=True):
                columns[f"= {output.name}"] = values
                failures += failed
        schema = self.files.schema(query)
        arrays = []
        for source, field in zip(reads.sources, schema, strict=True):
            array = columns[source]
            arrays.append(array.cast(field.type) if array.type != field.type else array)
        return pa.Table.from_arrays(arrays, schema=schema), failures


def _at_rest(rows: pa.Table) -> pa.RecordBatch:
    """Outputs in the types that the engine keeps: an instant is its UTC microseconds."""
    types = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in rows.schema]
    schema = pa.schema(list(zip(rows.schema.names, types, strict=True)))
    return rows.cast(schema).combine_chunks().to_batches()[0]
