"""The results of all due windows of many queries, from caches of slice stores.

Queries with the same reads share them, and reads that end in the same step are finished together: a
thousand queries that differ in their ranges and slides alone cost no more calls than one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulator import accumulators_of
from watersmeet.aggregate.distinct import distinct_columns
from watersmeet.aggregate.factorized import joined, with_empty_windows
from watersmeet.aggregate.last_step import FinalStep, finished, passing_having
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.slice_cache import DueRange, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.sparse import Keep, PartsOf
from watersmeet.aggregate.values import partial_columns
from watersmeet.model.expression import Expression
from watersmeet.model.forms import (
    END,
    START,
    FactorizedAggregates,
    FinalStage,
    JoinAggregates,
    PairAggregates,
    SliceAggregates,
)
from watersmeet.model.query import Query
from watersmeet.model.types import arrow_type
from watersmeet.store.guard import ExpressionError
from watersmeet.store.kernels import I64

Caches = Callable[[SliceStore], SliceCache]
_FEW_KEYS = 1 << 12  # of a window, which are made before HAVING is decided
_Read = Callable[[Any, tuple[SliceRead, ...], "Sequence[DueQuery]", Caches], Any]


@dataclass(frozen=True)
class DueQuery:
    """A query, what it reads, and which of its windows are due."""

    query: Query
    reads: tuple[SliceRead, ...]
    span: DueRange

    @cached_property
    def stores(self) -> tuple[SliceStore, ...]:
        return tuple(dict.fromkeys(reading.store for reading in self.reads))

    @property
    def step(self) -> FinalStep:
        form: Any = self.query.form  # one of `_READERS`
        return FinalStep(form.final, form.outputs)

    @cached_property
    def pushed_having(self) -> Expression | None:
        """HAVING, if it can be decided by the partials of one read: keys that it leaves out are not made then."""
        having = self.step.final.having
        if having is None or len(self.reads) > 1 or isinstance(self.query.form, FactorizedAggregates):
            return None
        columns = having.columns
        return having if columns and all(column.label in self.partial_of for column in columns) else None

    @cached_property
    def partial_of(self) -> dict[str, int]:
        """The numbers of the partials of the first read, by the names of their columns."""
        return {name: at for at, partial in enumerate(self.reads[0].partials) for name, _ in partial.columns(at)}


@dataclass(frozen=True)
class WindowAnswer:
    """What the due windows of a query give."""

    query: str
    rows: pa.RecordBatch | None  # the outputs, in the order of windows; None where there is a problem
    failures: dict[str, int] = field(default_factory=dict)  # expression -> on how many rows it raised, of all queries
    problem: ExpressionError | None = None
    groups: int = 0  # rows before the last step


@dataclass(frozen=True)
class CombinedPartials:
    """Combined partials of windows of several queries: `k0`, …, `p0`, …, `window_start`, `window_end`."""

    rows: pa.RecordBatch
    queries: I64  # of each row, in order; numbers of `DueQuery`s
    windows: I64  # of each row, by their starts or numbers; in order for each query
    left_out: Mapping[int, int] = field(default_factory=dict)  # by query, keys that HAVING has left out already


def answers(due: Sequence[DueQuery], caches: Caches) -> list[WindowAnswer]:
    """The results of each query, in the order of `due`."""
    return answers_of(relations(due, caches), due)


def answers_of(combined: Iterable[CombinedPartials], due: Sequence[DueQuery]) -> list[WindowAnswer]:
    """The results of each query from the combined partials of all due windows."""
    made: dict[int, WindowAnswer] = {}
    alike: dict[tuple[FinalStep, str], list[CombinedPartials]] = {}
    groups = np.zeros(len(due), np.int64)
    for relation in combined:
        for number, keys in relation.left_out.items():
            groups[number] += keys
        if not relation.rows.num_rows:
            continue
        groups += np.bincount(relation.queries, minlength=len(due))
        for step, part in _by_step(relation, due):
            alike.setdefault((step, part.rows.schema.to_string()), []).append(part)
    for (step, _), parts in alike.items():
        made.update(_finish(step, parts, due))
    found = [made.get(number) or _nothing(each) for number, each in enumerate(due)]
    return [replace(answer, groups=int(count)) for answer, count in zip(found, groups, strict=True)]


def relations(due: Sequence[DueQuery], caches: Caches) -> Iterator[CombinedPartials]:
    """The combined partials of all due windows, one relation for all queries that read the same."""
    alike: dict[tuple[_Read, Any, tuple[SliceRead, ...]], list[int]] = {}
    for number, each in enumerate(due):
        alike.setdefault((*form_read(each), each.reads), []).append(number)
    for (read, form, reads), numbers in alike.items():
        found = read(form, reads, [due[number] for number in numbers], caches)
        if found is not None:
            windows, rows, chosen, left_out = found
            relation = windows.relation(rows, chosen, numbers)
            yield replace(relation, left_out={numbers[at]: keys for at, keys in left_out.items()})


def _of_slices(
    form: SliceAggregates | None, reads: tuple[SliceRead, ...], due: Sequence[DueQuery], caches: Caches
) -> _Found | None:
    """`form` is that of aggregates of distinct values; others do not need it."""
    reading, *others = reads
    windows = Windows.of([each.span for each in due], caches(reading.store))
    if not len(windows.starts):
        return None
    left_out = Counter[int]()
    rows, chosen = windows.read(reading, caches, _having(due, windows, caches(reading.store), left_out))
    plain: Sequence[int] = range(len(reading.partials))
    if form is not None:
        plain = [at for at, partial in enumerate(form.partials) if not partial.distinct]
    names = list(reading.store.key_names)
    columns = [rows.column(name) for name in names]
    for at, partial in zip(plain, reading.partials, strict=True):
        names += [name for name, _ in partial.columns(at)]
        columns += partial_columns(reading.store, partial, rows)
    if form is not None:
        of_values = [(each, windows.read(each, caches)) for each in others]
        for at, column in distinct_columns(form, (rows, chosen), of_values):
            names.append(f"p{at}")
            columns.append(column)
    return windows, pa.RecordBatch.from_arrays(columns, names=names), chosen, left_out


def _having(due: Sequence[DueQuery], windows: Windows, cache: SliceCache, left_out: Counter[int]) -> Keep | None:
    """Which keys of a window pass HAVING, decided before they are made; the last step decides it again. `left_out`
    counts the others, by query."""
    if all(each.pushed_having is None for each in due):
        return None

    def keep(window: int, parts: PartsOf) -> np.ndarray | None:
        one = due[int(windows.spans[window])]
        having = one.pushed_having
        if having is None:
            return None
        relation = _partials(one.reads[0], {one.partial_of[column.label] for column in having.columns}, parts)
        if relation.num_rows < _FEW_KEYS:
            return None
        try:
            kept, failures = passing_having(relation, having)
        except ExpressionError:
            return None
        if failures:
            return None
        left_out[int(windows.spans[window])] += len(kept) - int(kept.sum())
        cache.note_kept(having, int(kept.sum()), len(kept))
        return kept

    return keep


def _partials(reading: SliceRead, numbers: Iterable[int], parts: PartsOf) -> pa.RecordBatch:
    """Some partials of a read, as expressions name them."""
    chosen = [reading.partials[at] for at in numbers]
    rows = parts(list(dict.fromkeys(part for partial in chosen for part in accumulators_of(partial))))
    names: list[str] = []
    columns: list[pa.Array] = []
    for at in sorted(numbers):
        partial = reading.partials[at]
        names += [name for name, _ in partial.columns(at)]
        columns += partial_columns(reading.store, partial, rows)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _of_factors(
    form: FactorizedAggregates, reads: tuple[SliceRead, ...], due: Sequence[DueQuery], caches: Caches
) -> _Found | None:
    members, present = reads[: len(form.members)], reads[len(form.members) :]
    windows = Windows.joined([each.span for each in due], members, present, caches)
    if not len(windows.starts):
        return None
    rows, chosen = joined(form, members, [windows.read(reading, caches) for reading in members])
    if present:
        rows, chosen = with_empty_windows(form, rows, chosen, len(windows.starts))
    return windows, rows, chosen, {}


def _without_final(form: Any) -> Any:
    """The aggregates without their last step, which many queries may have in common."""
    return replace(form, final=FinalStage(), outputs=())


# By form: who reads its windows, and what of the form it has to know.
_READERS: dict[type, tuple[_Read, Callable[[Any], Any]]] = {
    SliceAggregates: (_of_slices, lambda form: _without_final(form) if form.distinct else None),
    JoinAggregates: (_of_slices, lambda form: None),
    PairAggregates: (_of_slices, lambda form: None),
    FactorizedAggregates: (_of_factors, _without_final),
}


def form_read(due: DueQuery) -> tuple[Any, Any]:
    """Equal for queries that have the same combined partials, if they also have the same reads."""
    read, shape = _READERS[type(due.query.form)]
    return read, shape(due.query.form)


# The windows, the combined partials, the window of each, and how many keys HAVING has left out, by number of query.
_Found = tuple["Windows", pa.RecordBatch, I64, Mapping[int, int]]


@dataclass(frozen=True)
class Windows:
    """Windows of several queries, in order."""

    spans: I64  # of each window, the number of its query among those at hand
    starts: I64
    ends: I64

    @classmethod
    def of(cls, spans: Sequence[DueRange], cache: SliceCache) -> Windows:
        """The due windows that have slices."""
        numbers, starts = cache.due(spans)
        ranges = np.array([span.grid.range for span in spans], np.int64)
        return cls(numbers, starts, starts + ranges[numbers])

    @classmethod
    def joined(
        cls, spans: Sequence[DueRange], members: Sequence[SliceRead], present: Sequence[SliceRead], caches: Caches
    ) -> Windows:
        """The due windows of a factorized join: those with rows of all members; without keys, of some stream."""
        candidates = [cls.of(spans, caches(reading.store)) for reading in present or members]
        return cls.united(candidates)[0] if present else cls.common(candidates)

    @classmethod
    def united(cls, candidates: Sequence[Windows]) -> tuple[Windows, list[I64]]:
        """The windows that are in at least one of several lists; and for each list the numbers that they have now."""
        tables = np.concatenate([each._table() for each in candidates], axis=1)
        every, numbers = np.unique(tables, axis=1, return_inverse=True)
        ends = np.cumsum([len(each.starts) for each in candidates])[:-1]
        found = cls(*(np.ascontiguousarray(column) for column in every))
        return found, np.split(numbers.reshape(-1).astype(np.int64), ends)

    @classmethod
    def common(cls, candidates: Sequence[Windows]) -> Windows:
        """The windows that are in all of several lists."""
        tables = [each._table() for each in candidates]
        every, counts = np.unique(np.concatenate(tables, axis=1), axis=1, return_counts=True)
        return cls(*(np.ascontiguousarray(column[counts == len(tables)]) for column in every))

    def _table(self) -> np.ndarray:
        return np.stack((self.spans, self.starts, self.ends))

    def read(self, reading: SliceRead, caches: Caches, keep: Keep | None = None) -> tuple[pa.RecordBatch, I64]:
        return caches(reading.store).read(reading.parts, reading.present, self.starts, self.ends, keep)

    def relation(self, rows: pa.RecordBatch, chosen: I64, numbers: list[int]) -> CombinedPartials:
        """Rows with their windows, as the last step reads them."""
        starts = self.starts[chosen]
        times = [pa.array(each, pa.timestamp("us")) for each in (starts, self.ends[chosen])]
        whole = pa.RecordBatch.from_arrays([*rows.columns, *times], names=[*rows.schema.names, START, END])
        return CombinedPartials(whole, np.array(numbers, np.int64)[self.spans[chosen]], starts)


def _by_step(relation: CombinedPartials, due: Sequence[DueQuery]) -> Iterator[tuple[FinalStep, CombinedPartials]]:
    """The rows of queries with equal last steps."""
    bounds = np.flatnonzero(np.diff(relation.queries, prepend=-1))
    runs: dict[FinalStep, list[tuple[int, int]]] = {}
    for begin, end in zip(bounds.tolist(), [*bounds[1:].tolist(), len(relation.queries)], strict=True):
        runs.setdefault(due[int(relation.queries[begin])].step, []).append((begin, end))
    if len(runs) == 1:
        yield next(iter(runs)), relation
        return
    for step, pieces in runs.items():
        rows = np.concatenate([np.arange(begin, end) for begin, end in pieces])
        yield step, CombinedPartials(relation.rows.take(pa.array(rows)), relation.queries[rows], relation.windows[rows])


def _finish(
    step: FinalStep, found: list[CombinedPartials], due: Sequence[DueQuery]
) -> Iterator[tuple[int, WindowAnswer]]:
    rows = pa.Table.from_batches([each.rows for each in found]).combine_chunks().to_batches()[0]
    queries, starts = (np.concatenate([getattr(each, name) for each in found]) for name in ("queries", "windows"))
    changes = (np.diff(queries, prepend=-1) != 0) | (np.diff(starts, prepend=0) != 0)
    changes[0] = True
    windows = np.cumsum(changes) - 1
    of_window = queries[changes]  # the query of each window
    try:
        done = finished(step, rows, windows)
    except ExpressionError as problem:
        yield from _one_by_one(step, CombinedPartials(rows, queries, windows), due, problem)
        return
    owner = of_window[done.windows]
    bounds = np.flatnonzero(np.diff(owner, prepend=-1))
    failures = done.failures
    ends = [*bounds[1:].tolist(), len(owner)] if len(owner) else []  # HAVING may leave nothing
    for begin, end in zip(bounds.tolist(), ends, strict=True):
        number = int(owner[begin])
        yield number, WindowAnswer(due[number].query.name, done.rows.slice(begin, end - begin), failures)
        failures = {}


def _one_by_one(
    step: FinalStep, all_of_them: CombinedPartials, due: Sequence[DueQuery], problem: ExpressionError
) -> Iterator[tuple[int, WindowAnswer]]:
    """Each query by itself, where one of them may be the only one to fail."""
    numbers = np.unique(all_of_them.queries).tolist()
    for number in numbers:
        name = due[number].query.name
        if len(numbers) == 1:
            yield number, WindowAnswer(name, None, problem=problem)
            return
        chosen = all_of_them.queries == number
        try:
            done = finished(step, all_of_them.rows.filter(pa.array(chosen)), all_of_them.windows[chosen])
        except ExpressionError as own:
            yield number, WindowAnswer(name, None, problem=own)
        else:
            yield number, WindowAnswer(name, done.rows, done.failures)


def _nothing(due: DueQuery) -> WindowAnswer:
    outputs = due.query.outputs
    empty = [pa.array([], arrow_type(output.type)) for output in outputs]
    return WindowAnswer(due.query.name, pa.RecordBatch.from_arrays(empty, names=[output.name for output in outputs]))
