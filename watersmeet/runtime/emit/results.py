"""Where paths end: results of queries go to files, rows of materialized stores to buckets.

References are collected until they are worth a piece of a file; only then are rows put together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet import points
from watersmeet.home.manifest import ResultFile
from watersmeet.io.sinks import (
    STAGING,
    ResultWriter,
    counts_folder,
    extension,
    open_writer,
    result_folder,
    result_schema,
)
from watersmeet.model import ColumnRef, KeyPart, Sink, member_column
from watersmeet.plan.ruleset import Emit, Keep, ResultRule, Start, Step, StoreRule
from watersmeet.runtime.emit.assemble import Assembly, concatenate
from watersmeet.runtime.probe.placement import places_of
from watersmeet.runtime.probe.walk import Partial, Stores, Walk
from watersmeet.runtime.tick.orders import ProbeOrder, ProbeReport
from watersmeet.store.bucket import Bucket, Derived
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import Words, word_type
from watersmeet.store.kernels import I64, count_bits, cut_windows

FLUSH_ROWS = 1 << 17
COUNTS = "counts"  # in place of a query: the file of a task with the matches of all queries that only count them
_At = tuple[str, Emit | Keep, str]  # start relation, end of the path, and the query or materialized store there


@dataclass(frozen=True)
class _Open:
    """A result file that is being written."""

    writer: ResultWriter
    staged: Path
    final: Path


class Results:
    def __init__(self, order: ProbeOrder, stores: Stores, task: str) -> None:
        self.order = order
        self.stores = stores
        self.task = task
        self.counts: Counter[str] = Counter()
        self._rules = {rule.query: rule for rule in order.rules.results}
        self._waiting: dict[_At, list[Partial]] = {}
        self._waiting_rows: Counter[_At] = Counter()
        self._stored_in: dict[tuple[str, Emit | Keep], tuple[str, ...]] = {}
        self._windows: dict[Emit, tuple[np.ndarray, np.ndarray]] = {}
        self._counted: dict[tuple[str, ...], I64] = {}  # by the queries of a group
        self._open: dict[str, _Open] = {}
        self._written: Counter[str] = Counter()
        self._report = ProbeReport()

    def add(self, end: Emit | Keep, partial: Partial, start: Start) -> None:
        sets = partial.sets.get(end.group)
        partial = Partial(partial.members, partial.latest, partial.deadline, {}, {})
        if isinstance(end, Keep):
            rows = None if sets is None else np.flatnonzero(sets)
            self._collect((start.relation, end, end.store), partial, rows)
            return
        if end.windows is not None:
            if sets is None:
                sets = np.full(len(partial), (1 << len(end.queries)) - 1, word_type(((),) * len(end.queries)))
            sets = self._cut_windows(end, self._assembly((start.relation, end), partial), sets)
        counting = [self._rules[query].sink.format == "count" for query in end.queries]
        if any(counting):
            self._count((start.relation, end), partial, sets)
        for bit, query in enumerate(end.queries):
            if not counting[bit]:
                wanted = None if sets is None else np.flatnonzero(sets & sets.dtype.type(1 << bit))
                self._collect((start.relation, end, query), partial, wanted)

    def _collect(self, at: _At, partial: Partial, rows: np.ndarray | None) -> None:
        if rows is not None and len(rows) < len(partial):
            if not len(rows):
                return
            partial = partial.take(rows)
        self._waiting.setdefault(at, []).append(partial)
        self._waiting_rows[at] += len(partial)
        if self._waiting_rows[at] >= FLUSH_ROWS:
            self._flush(at)

    def _assembly(self, at: tuple[str, Emit | Keep], partial: Partial) -> Assembly:
        if at not in self._stored_in:
            self._stored_in[at] = self._path_to(at)
        return Assembly(self.stores, self.order.rules, self._stored_in[at], at[1].members, partial)

    def _path_to(self, at: tuple[str, Emit | Keep]) -> tuple[str, ...]:
        """The stores of the positions of a path, found by its end."""
        relation, end = at
        for start in self.order.starts:
            if start.relation == relation:
                found = _path_below((start.stream,), start.emits, start.steps, end)
                if found is not None:
                    return found
        raise AssertionError(f"{end} is the end of no path from {relation}")

    def _cut_windows(self, emit: Emit, rows: Assembly, sets: Words) -> Words:
        """The query sets without the queries whose own windows are exceeded."""
        if emit not in self._windows:
            assert emit.windows is not None
            masks: dict[tuple[int, ...], int] = {}
            for bit, windows in enumerate(emit.windows):
                masks[windows] = masks.get(windows, 0) | 1 << bit
            self._windows[emit] = np.array(list(masks), np.int64), np.array(list(masks.values()), np.uint64)
        times = np.stack([rows.times(member) for member in range(len(emit.members))])
        cut = sets.copy()
        cut_windows(times, *self._windows[emit], cut)
        return cut

    def _count(self, at: tuple[str, Emit], partial: Partial, sets: Words | None) -> None:
        emit = at[1]
        if emit.verify:
            found = self._assembly(at, replace(partial, sets={} if sets is None else {emit.group: sets}))
            partial = found.verified(emit.verify).partial
            sets = partial.sets.get(emit.group)
        counts = self._counted.setdefault(emit.queries, np.zeros(64, np.int64))
        if sets is None:
            counts[: len(emit.queries)] += len(partial)
        else:
            count_bits(sets, counts)

    def _flush(self, at: _At) -> None:
        relation, end, name = at
        found = self._assembly((relation, end), concatenate(self._waiting.pop(at)))
        del self._waiting_rows[at]
        if isinstance(end, Keep) and end.windows is not None:
            found = found.within(end.windows)
        rows = found.verified(end.verify)
        self.counts["hash_collisions"] += len(found) - len(rows)
        if not len(rows):
            return
        if isinstance(end, Keep):
            self._store(relation, self.order.rules.store(name), rows)
        else:
            file = self._file(self._rules[name])
            file.writer.write(self._outputs(self._rules[name], rows))
            self._written[name] += len(rows)
            points.reach("results.write", file.staged)

    # Results of queries --------------------------------------------------------------------------

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
                    self.counts[f"failed_values/{rule.query}"] += failed
        schema = result_schema(rule.outputs)
        arrays = []
        for output, field in zip(rule.outputs, schema, strict=True):
            read = output.expression
            array = columns[read.label if isinstance(read, ColumnRef) else f"= {output.name}"]
            arrays.append(array.cast(field.type) if array.type != field.type else array)
        return pa.Table.from_arrays(arrays, schema=schema)

    def _file(self, rule: ResultRule) -> _Open:
        if rule.query not in self._open:
            folder = result_folder(self.stores.home, rule.query, rule.sink)
            name = f"{self.order.tick:012d}-{self.order.attempt}-{self.task}.{extension(rule.sink)}"
            staged = folder / STAGING / f"{name}.staged"
            writer = open_writer(staged, rule.sink, result_schema(rule.outputs))
            self._open[rule.query] = _Open(writer, staged, folder / name)
        return self._open[rule.query]

    # Rows of materialized stores -----------------------------------------------------------------

    def _store(self, made_by: str, rule: StoreRule, rows: Assembly) -> None:
        plain = rows.columns(
            {
                member: [str(kept.source) for kept in rule.kept if kept.member == member and kept.kind == "column"]
                for member in range(len(rule.members))
            }
        )
        arrays = []
        for column, declared in zip(rule.kept, rule.columns, strict=True):
            if column.kind == "time":
                array = pa.array(rows.times(column.member))
            elif isinstance(column.source, str):
                array = plain[column.member, column.source].combine_chunks()
            elif column.kind == "filter":
                array = pa.array(rows.passes(column.member, column.source))
            else:
                array = rows.key(column.member, KeyPart(column.source, column.type))
                array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            arrays.append(array.cast(declared.arrow) if array.type != declared.arrow else array)
        batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in rule.columns])
        whole = Bucket(batch, rows.partial.latest, rows.partial.deadline)
        if self.order.rules.partitions == 1:
            self._write(made_by, rule, whole, 0)
            return
        places = places_of(whole, rule, self.order.rules.partitions)
        for place in np.unique(places):
            chosen = np.flatnonzero(places == place)
            part_of = Bucket(batch.take(pa.array(chosen)), whole.tau[chosen], whole.deadline[chosen])
            self._write(made_by, rule, part_of, int(place))

    def _write(self, made_by: str, rule: StoreRule, bucket: Bucket, place: int) -> None:
        refill = self.order.phase == 0  # among rows that were stored before: nothing of this tick
        tick = self.order.tick - 1 if refill else self.order.tick
        number = f"{self.task}-{self.order.phase}-{len(self._report.kept)}"
        self._report.kept.append(
            bucket.write(
                self.stores.home,
                f"state/{rule.name}/{self.order.tick:012d}-{self.order.attempt}-{number}.bucket",
                Derived(rule.keys, rule.blocks, rule.sorted_by),
                store=rule.name,
                first_tick=tick,
                last_tick=tick,
                partition=place,
                layout=self.order.rules.layout_text(rule.name),
                made_by="" if refill else made_by,
            )
        )

    def finish(self, walk: Walk) -> ProbeReport:
        """Write what is waiting, close the files, and report them with what the walk has counted."""
        for at in list(self._waiting):
            self._flush(at)
        for query, file in self._open.items():
            file.writer.close()
            points.reach("results.written", file.staged)
            self._report.results.append(ResultFile(query, str(file.staged), str(file.final), self._written[query]))
            self.counts[f"results/{query}"] += self._written[query]
        self._file_counts()
        self._report.counts.update(self.counts)
        self._report.counts.update(walk.counts)
        self._report.off = walk.calls.off
        walk.calls.tell(self.stores.home, self.order.tick)
        return self._report

    def _file_counts(self) -> None:
        """The matches of queries that only count them: one small file of the task for all of these queries."""
        found: Counter[str] = Counter()
        for queries, counts in self._counted.items():
            for query, count in zip(queries, counts.tolist(), strict=False):
                if count and self._rules[query].sink.format == "count":
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
        folder = counts_folder(self.stores.home)
        name = f"{self.order.tick:012d}-{self.order.attempt}-{self.task}-{self.order.phase}.parquet"
        staged = folder / STAGING / f"{name}.staged"
        writer = open_writer(staged, Sink(), rows.schema)
        writer.write(rows)
        writer.close()
        self._report.results.append(ResultFile(COUNTS, str(staged), str(folder / name), sum(found.values())))
        self.counts.update({f"results/{query}": count for query, count in found.items()})


def _path_below(
    path: tuple[str, ...], ends: tuple[Emit | Keep, ...], steps: tuple[Step, ...], end: Emit | Keep
) -> tuple[str, ...] | None:
    if end in ends:
        return path
    found = (_path_below((*path, step.store), step.ends, step.steps, end) for step in steps)
    return next((stores for stores in found if stores is not None), None)
