"""Gather: the rows of one source task become buckets. Knows buckets and rules, but not Spark.

A row is set aside, with the reason, in `rejected/<stream>/` when its source could not parse it, when its
event time is NULL or outside the years 1 to 9999, when it is late or too far ahead, or when a string in it is not
UTF-8. Everything else is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.home import layout
from watersmeet.home.counters import FILTER_BITS, GATHER, INDEX_ENTRIES, ROWS, SLICING, Reason
from watersmeet.home.manifest import BucketInfo
from watersmeet.io.column_types import converted
from watersmeet.model import CORRUPT_COLUMN, Sink
from watersmeet.model.stream import DAY
from watersmeet.plan.ruleset import StreamStore
from watersmeet.runtime.emit.new_buckets import BUCKET_BYTES, BUCKET_ROWS, NewBuckets
from watersmeet.runtime.emit.staged_file import StagedFile
from watersmeet.runtime.tick.orders import TAU_MAX, TAU_MIN, GatherOrder, GatherReport
from watersmeet.store.bucket import Bucket
from watersmeet.store.codes import whole_numbers
from watersmeet.store.derived import Derived
from watersmeet.store.kernels import I64, count_bits
from watersmeet.store.sketch import SKETCH_ROWS, sketch
from watersmeet.windows.working import Intake

_BLOCK = 256  # strings that are looked at together
_CODES = {reason: code for code, reason in enumerate(Reason, 1)}  # 0: the row is stored
_REASONS = {code: reason for reason, code in _CODES.items()}


class Gather:
    """One task's share of one stream in one tick."""

    def __init__(
        self,
        order: GatherOrder,
        rule: StreamStore,
        task: str,
        corrupt: str | None = CORRUPT_COLUMN,
        intake: Intake | None = None,
    ) -> None:
        """`corrupt` is the column in which the source reports rows that it could not parse, if it has one. `intake`
        takes the rows into stores of windows."""
        self.order = order
        self.rule = rule
        self._corrupt = corrupt
        # Otherwise no query reads its rows as they are: they are only counted, or go into stores of windows.
        self.stored = rule.name in order.rules.stream_stores
        self._intake = intake
        self.task = task
        self.report = GatherReport(rule.name)
        self._schema = pa.schema([(column.name, column.arrow) for column in rule.columns])
        self._waiting: list[tuple[pa.RecordBatch, I64]] = []
        self._buckets = NewBuckets(order, task)
        self._rejected: list[pa.Table] = []

    def run(self, batches: Iterable[pa.RecordBatch]) -> GatherReport:
        with self.report.counts.timed(GATHER):
            self._run(batches)
        done, rows = self.report.counts.done, self.report.counts.rows[self.rule.name]
        stored = sum(info.rows for info in self.report.buckets if info.store == self.rule.name)
        done[ROWS] += rows
        done[INDEX_ENTRIES] += stored * len(self.rule.keys)
        done[FILTER_BITS] += rows * sum(map(len, self.rule.blocks))
        return self.report

    def _run(self, batches: Iterable[pa.RecordBatch]) -> None:
        rows = size = 0
        for batch in batches:
            self._take(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= BUCKET_ROWS or size >= BUCKET_BYTES:
                self._store()
                rows = size = 0
        self._store()
        if self._intake:
            with self.report.counts.timed(SLICING):
                self.report.buckets += self._intake.finish(self.report.counts)
        self._set_aside()

    def _take(self, batch: pa.RecordBatch) -> None:
        self.report.counts.rows[self.rule.name] += batch.num_rows
        rows = at_rest(batch, self._schema)
        tau, known = event_times(rows.column(self.rule.time))
        reason = np.zeros(len(tau), np.uint8)
        reason[invalid_text(rows)] = _CODES[Reason.INVALID_TEXT]
        if raised := self.order.raised.get(self.rule.name):
            reason[tau < raised] = _CODES[Reason.SILENT]
        reason[tau < self.order.watermarks.get(self.rule.name, TAU_MIN)] = _CODES[Reason.LATE]
        impossible = (tau < TAU_MIN) | (tau > TAU_MAX)
        if limit := self.order.limits.get(self.rule.name):
            reason[tau > limit.above(tau[known & ~impossible])] = _CODES[Reason.TOO_FAR_AHEAD]
        reason[impossible] = _CODES[Reason.TIME_OUT_OF_RANGE]
        reason[~known] = _CODES[Reason.NO_TIME]
        if self._corrupt in batch.schema.names:
            reason[np.asarray(batch.column(self._corrupt).is_valid())] = _CODES[Reason.UNREADABLE]
        if reason.any():
            bad = np.flatnonzero(reason)
            named = pa.array([_REASONS[code] for code in reason[bad]])
            for code, count in zip(*np.unique(reason[bad], return_counts=True), strict=True):
                self.report.counts.set_aside[_REASONS[code], self.rule.name] += int(count)
            aside = pa.Table.from_batches([batch]).take(pa.array(bad))
            self._rejected.append(aside.append_column("rejected_because", named))
            good = np.flatnonzero(reason == 0)
            rows, tau = rows.take(pa.array(good)), tau[good]
        if len(tau):
            self.report.newest = max(int(tau.max()), self.report.newest if self.report.newest is not None else TAU_MIN)
            if self.stored or self._intake:
                self._waiting.append((rows, tau))

    def _store(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches([batch for batch, _ in self._waiting]).combine_chunks()
        times = [tau for _, tau in self._waiting]
        tau = times[0] if len(times) == 1 else np.concatenate(times)
        self._waiting = []
        begin = 0
        for rows in table.to_batches():  # one, unless its text is longer than an array of Arrow can be (2 GB)
            self._keep(rows, tau[begin : begin + rows.num_rows])
            begin += rows.num_rows

    def _keep(self, rows: pa.RecordBatch, tau: I64) -> None:
        if self._intake:
            with self.report.counts.timed(SLICING):
                self._intake.add(rows, tau)
        whole = Bucket(rows, tau)
        if not self.stored:
            self._sample(whole)
            return
        if self.rule.computed:
            self.report.buckets.append(self._unfinished(whole))
        else:
            self.finish(whole)

    def _unfinished(self, rows: Bucket) -> BucketInfo:
        """A bucket for Spark to compute columns of its rows; `finish` follows then, and no manifest names this one."""
        name = layout.bucket_file(
            self.rule.name, self.order.tick, self.order.attempt, f"{self.task}-u{len(self.report.buckets)}"
        )
        here = {"store": self.rule.name, "first_tick": self.order.tick, "last_tick": self.order.tick}
        return rows.write(Path(self.order.home), name, Derived(), **here)

    def finish(self, whole: Bucket) -> None:
        """Store the rows that some query wants, each in its partition, with everything that is derived of them."""
        self._count_passing(whole)
        if self.rule.only_wanted:
            wanted = np.zeros(len(whole), bool)
            for block in self.rule.blocks:
                wanted |= whole.words(block) != 0
            if not wanted.all():
                self.report.counts.unwanted[self.rule.name] += int((~wanted).sum())
                self._count_failures(whole)
                whole = whole.keep(np.flatnonzero(wanted))
                if not len(whole):
                    return
        self._sample(whole)
        for bucket, info in self._buckets.write(self.rule, whole, self.order.tick):
            self._count_failures(bucket)
            self.report.buckets.append(info)

    def _count_passing(self, rows: Bucket) -> None:
        """How many rows pass each filter, also of those that are not stored."""
        self.report.examined += len(rows)
        passing: dict[str, int] = {}
        for block in self.rule.blocks:
            counts = np.zeros(64, np.int64)
            count_bits(rows.words(block), counts)
            for bit, count in zip(block.bits, counts.tolist(), strict=False):
                if len(bit) == 1:  # otherwise alternatives, of which each is a filter of its own
                    passing[bit[0].text] = count
        self.report.passing.update(passing)

    def _sample(self, bucket: Bucket) -> None:
        """Sketches of the keys that queries join by, also where no step of the plan looks them up."""
        first = bucket
        if len(bucket) > SKETCH_ROWS:
            first = Bucket(bucket.rows.slice(0, SKETCH_ROWS), bucket.tau[:SKETCH_ROWS])
        for part in self.order.sampled.get(self.rule.name, ()):
            made, before = sketch(first.codes((part,)), len(bucket)), self.report.sketches.get(part)
            self.report.sketches[part] = made if before is None else before.merged(made)

    def _count_failures(self, bucket: Bucket) -> None:
        for failed in bucket.failures.values():
            if failed:
                self.report.counts.set_aside[Reason.FAILED_FILTER, self.rule.name] += failed

    def _set_aside(self) -> None:
        if not self._rejected:
            return
        rows = pa.concat_tables(self._rejected)
        folder = layout.rejected(Path(self.order.home), self.rule.name)
        name = layout.data_file(self.order.tick, self.order.attempt, self.task, "parquet")
        file = StagedFile(folder, name, Sink(), rows.schema)
        file.write(rows)
        self.report.rejected.append(file.close(f"rejected {self.rule.name}"))


def at_rest(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the types that the engine keeps."""
    arrays = [converted(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def invalid_text(rows: pa.RecordBatch) -> I64:
    """The rows with a string that is not UTF-8: every reader of it would fail."""
    found = [_invalid(column) for column in rows.columns if _has_text(column.type) and not _is_valid(column)]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _invalid(array: pa.Array) -> I64:
    """Where a string of an array, or one inside of its values, is not UTF-8. Values inside of NULL do not count."""
    kind = array.type
    if not _has_text(kind):
        return np.empty(0, np.int64)
    if not pa.types.is_nested(kind):
        return _invalid_strings(array)
    found: I64
    if pa.types.is_struct(kind):
        found = np.concatenate([_invalid(array.field(at)) for at in range(kind.num_fields)])
    else:
        inner = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
        offsets = array.offsets.to_numpy()
        found = np.searchsorted(offsets, np.concatenate([_invalid(each) for each in inner]), side="right") - 1
        found = found[(found >= 0) & (found < len(array))]  # of a slice, the values of other rows are there too
    found = found[np.asarray(array.is_valid())[found]]
    return found


def _invalid_strings(strings: pa.Array) -> I64:
    """One by one only in blocks that have such a string: it must not make all rows of its batch slow."""
    plain = pa.large_binary() if pa.types.is_large_string(strings.type) else pa.binary()
    found: list[int] = []
    for begin in range(0, len(strings), _BLOCK):
        block = strings[begin : begin + _BLOCK]
        if not _is_valid(block):
            found += [begin + at for at, text in enumerate(block.cast(plain).to_pylist()) if not _is_utf8(text)]
    return np.array(found, np.int64)


def _is_utf8(text: bytes | None) -> bool:
    try:
        str(text or b"", "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_text(kind: pa.DataType) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or any(map(_has_text, inner))


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def event_times(column: pa.Array) -> tuple[I64, np.ndarray]:
    """Microseconds for each row, and which rows have a time at all."""
    known, tau = np.asarray(column.is_valid()), whole_numbers(column)
    if pa.types.is_date(column.type):
        tau = tau * DAY
    if not known.all():
        tau = np.where(known, tau, 0)
    return tau, known
