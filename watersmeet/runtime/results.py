"""Where results leave: checks that shared steps could not make, rows put together, files written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.io.sinks import STAGING, ResultWriter, extension, open_writer, result_folder, result_schema
from watersmeet.model import KeyPart, member_column
from watersmeet.plan.ruleset import Emit, Lookup, ResultRule
from watersmeet.runtime.orders import ProbeOrder, ProbeReport
from watersmeet.runtime.walk import Partial, Refs, Stores
from watersmeet.store.evaluate import evaluate
from watersmeet.store.manifest import ResultFile

FLUSH_ROWS = 1 << 17


class Results:
    """Collects the references of complete results by query and writes them in large pieces."""

    def __init__(self, order: ProbeOrder, stores: Stores, task: str) -> None:
        self.order = order
        self.stores = stores
        self.task = task
        self.counts: Counter[str] = Counter()
        self._rules = {rule.query: rule for rule in order.rules.results}
        self._waiting: dict[str, list[tuple[Emit, tuple[Refs, ...]]]] = {}
        self._waiting_rows: Counter[str] = Counter()
        self._writers: dict[str, tuple[ResultWriter, Path, Path]] = {}
        self._written: Counter[str] = Counter()

    def add(self, emit: Emit, partial: Partial) -> None:
        rule = self._rules[emit.query]
        members = tuple(partial.members[position] for position in emit.members)
        keep = self._own_rows(rule, emit, members)
        if keep is not None:
            if not keep.any():
                return
            members = tuple(refs.take(keep) for refs in members)
        self._waiting.setdefault(emit.query, []).append((emit, members))
        self._waiting_rows[emit.query] += len(members[0].row)
        if self._waiting_rows[emit.query] >= FLUSH_ROWS:
            self._flush(emit.query)

    def _own_rows(self, rule: ResultRule, emit: Emit, members: tuple[Refs, ...]) -> np.ndarray | None:
        """Which results satisfy the query's own windows and filters; None where that is known already."""
        keep: np.ndarray | None = None
        if emit.windows is not None:
            taus = [
                self.stores.gather(stream, refs, lambda bucket: bucket.tau, np.int64)
                for (_, stream), refs in zip(rule.aliases, members, strict=True)
            ]
            deadline = np.min([tau + window for tau, window in zip(taus, emit.windows, strict=True)], axis=0)
            keep = np.max(taus, axis=0) <= deadline
        for (_, stream), refs, text in zip(rule.aliases, members, emit.filters, strict=True):
            if text is not None:
                passed = self.stores.gather(stream, refs, lambda bucket, text=text: bucket.masks((text,))[0], np.uint8)  # type: ignore[misc]
                keep = passed != 0 if keep is None else keep & (passed != 0)
        return keep

    def _flush(self, query: str) -> None:
        waiting = self._waiting.pop(query)
        del self._waiting_rows[query]
        by_check: dict[tuple[tuple[Lookup, Lookup], ...], list[tuple[Refs, ...]]] = {}
        for emit, members in waiting:
            # Positions differ between starts; an alias's place in the query does not.
            alias_of = {position: alias for alias, position in enumerate(emit.members)}
            check = tuple(
                ((alias_of[left], left_part), (alias_of[right], right_part))
                for (left, left_part), (right, right_part) in emit.verify
            )
            by_check.setdefault(check, []).append(members)
        rule = self._rules[query]
        for check, pieces in by_check.items():
            members = tuple(
                Refs(np.concatenate([p[at].bucket for p in pieces]), np.concatenate([p[at].row for p in pieces]))
                for at in range(len(rule.aliases))
            )
            rows = self._put_together(rule, members, check)
            if rows.num_rows:
                self._writer(rule).write(rows)
                self._written[query] += rows.num_rows

    def _put_together(
        self, rule: ResultRule, members: tuple[Refs, ...], check: tuple[tuple[Lookup, Lookup], ...]
    ) -> pa.Table:
        places = [_Placement(refs) for refs in members]
        if check:
            keep = np.ones(len(members[0].row), bool)
            for left, right in check:
                pair = [self._key_values(rule, places[at], at, part) for at, part in (left, right)]
                keep &= np.asarray(pc.equal(*pair).fill_null(False))
            if not keep.all():
                self.counts["hash_collisions"] += int((~keep).sum())
                places = [_Placement(refs.take(keep)) for refs in members]
        wanted: dict[int, dict[str, None]] = {at: {} for at in range(len(members))}
        alias_at = {alias: at for at, (alias, _) in enumerate(rule.aliases)}
        for output in rule.outputs:
            for alias, column in [(output.alias, output.column)] if output.alias else output.reads:
                wanted[alias_at[str(alias)]][str(column)] = None
        columns: dict[str, pa.ChunkedArray] = {}
        for at, (alias, stream) in enumerate(rule.aliases):
            if wanted[at]:
                table = places[at].columns(self.stores, stream, list(wanted[at]))
                columns.update({member_column(alias, name): table.column(name) for name in wanted[at]})
        return self._outputs(rule, columns, len(places[0].refs.row))

    def _outputs(self, rule: ResultRule, columns: dict[str, pa.ChunkedArray], rows: int) -> pa.Table:
        computed = [output for output in rule.outputs if output.expression is not None]
        values: dict[str, pa.Array] = {}
        if computed:
            # DuckDB wants a column even where every output is a constant.
            source = pa.table(columns) if columns else pa.table({"row": pa.nulls(rows, pa.int8())})
            done = evaluate(source, [str(output.expression) for output in computed])
            for output, value, failed in zip(computed, done.values, done.failures, strict=True):
                values[output.name] = value
                if failed:
                    self.counts[f"failed_values/{rule.query}"] += failed
        schema = result_schema(rule.outputs)
        arrays = []
        for output, field in zip(rule.outputs, schema, strict=True):
            array = (
                values[output.name]
                if output.name in values
                else columns[member_column(str(output.alias), str(output.column))]
            )
            arrays.append(array.cast(field.type) if array.type != field.type else array)
        return pa.Table.from_arrays(arrays, schema=schema)

    def _key_values(self, rule: ResultRule, place: _Placement, at: int, part: KeyPart) -> pa.Array:
        stream = rule.aliases[at][1]
        if part.column is not None:
            return place.columns(self.stores, stream, [part.column]).column(0)
        everything = place.columns(self.stores, stream, [c.name for c in self.order.rules.store(stream).columns])
        return evaluate(everything, [part.expression]).values[0]

    def _writer(self, rule: ResultRule) -> ResultWriter:
        if rule.query not in self._writers:
            folder = result_folder(self.stores.home, rule.query, rule.sink)
            name = f"{self.order.tick:012d}-{self.order.attempt}-{self.task}.{extension(rule.sink)}"
            staged = folder / STAGING / f"{name}.staged"
            writer = open_writer(staged, rule.sink, result_schema(rule.outputs))
            self._writers[rule.query] = (writer, staged, folder / name)
        return self._writers[rule.query][0]

    def finish(self, report: ProbeReport) -> None:
        """Write what is waiting, close the files and report them."""
        for query in list(self._waiting):
            self._flush(query)
        for query, (writer, staged, final) in self._writers.items():
            writer.close()
            report.results.append(ResultFile(query, str(staged), str(final), self._written[query]))
            report.counts[f"results/{query}"] += self._written[query]
        report.counts.update(self.counts)


class _Placement:
    """References sorted by bucket once, so that each column is taken from each bucket in one go."""

    def __init__(self, refs: Refs) -> None:
        self.refs = refs
        self.numbers = np.flatnonzero(np.bincount(refs.bucket))
        if len(self.numbers) > 1:
            narrow = refs.bucket.astype(np.uint16) if self.numbers[-1] < 1 << 16 else refs.bucket
            self.order = np.argsort(narrow, kind="stable")  # a radix sort for 16 bits
            self.bounds = np.searchsorted(refs.bucket[self.order], self.numbers)
            self.back = np.empty(len(self.order), np.int64)
            self.back[self.order] = np.arange(len(self.order))

    def columns(self, stores: Stores, stream: str, names: list[str]) -> pa.Table:
        if len(self.numbers) == 0:
            any_bucket = stores.at(stream, 0)
            return pa.Table.from_batches([any_bucket.rows.select(names).slice(0, 0)])
        if len(self.numbers) == 1:
            rows = stores.at(stream, int(self.numbers[0])).rows.select(names)
            return pa.Table.from_batches([rows.take(pa.array(self.refs.row))])
        sorted_rows = self.refs.row[self.order]
        ends = [*self.bounds[1:], len(sorted_rows)]
        pieces = [
            stores.at(stream, int(number)).rows.select(names).take(pa.array(sorted_rows[begin:end]))
            for number, begin, end in zip(self.numbers, self.bounds, ends, strict=True)
        ]
        return pa.Table.from_batches(pieces).combine_chunks().take(pa.array(self.back))
