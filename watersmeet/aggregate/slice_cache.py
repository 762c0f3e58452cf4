"""The windows of all queries over one slice store: a cache of its final slices, which any run of them is read from.

A worker keeps a `SliceCache` for each slice store between ticks. Each tick it appends the slices that have become
final, those that end at or before the watermark: no row of them can come any more, so nothing in the cache changes.
It is made anew from the buckets when there is none, as after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.combined import combined_rows
from watersmeet.aggregate.kernels import windows_due
from watersmeet.aggregate.matrix import Matrix
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.sparse import Keep, PartsOf, SparseSlices
from watersmeet.aggregate.structure import Structure, is_sparse, is_too_large, structure_for
from watersmeet.aggregate.tree import SliceTree
from watersmeet.model.expression import Expression
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.store.bucket import Bucket
from watersmeet.store.kernels import I64

Form = Matrix | SparseSlices | SliceTree
RowsOf = Callable[[Bucket], np.ndarray]  # which rows of a bucket are wanted
Opened = Callable[[int, int], Iterable[Bucket]]  # the buckets with rows of slices that begin in [begin, end)
_FORGETTING = 0.9  # of what was seen, at each look
_EVER = 1 << 60  # no event time is farther from 0
_FEW_BUCKETS = 2  # of which rows of a slice and key are not combined, where reading adds them up


@dataclass(frozen=True)
class DueRange:
    """Which windows of a query are due: those that begin from `opened` to before `until`."""

    grid: SlidingWindow
    opened: int
    until: int

    @property
    def end(self) -> int:
        """The end of the last window."""
        return self.grid.end(self.grid.last(self.until - 1))


class SliceCache:
    def __init__(self, store: SliceStore, longest: int, rows_of: RowsOf | None = None) -> None:
        """`longest`: the range of the longest window that will be read. `rows_of`: not all rows are read."""
        self.store = store
        self._rows_of = rows_of
        self.longest = longest
        self.forget_reads()
        self._clear()

    def forget_reads(self) -> None:
        """Begin to count anew what is read."""
        self.windows_read = self.keys_read = self.values_read = self.reads = 0

    def note_kept(self, having: Expression, kept: int, keys: int) -> None:
        """Remember which share of the keys of a window passed HAVING."""
        self._kept[having] = max(kept / max(1, keys), self._kept.get(having, 0.0) * _FORGETTING)

    def kept_share(self, having: Expression | None) -> float:
        """At most which share of the keys of a window passes HAVING, as far as that is known; twice what was seen."""
        if having is None or not isinstance(self._form, SparseSlices):
            return 1.0
        return min(1.0, 2 * self._kept.get(having, 1.0))

    def _clear(self) -> None:
        self._kept: dict[Expression, float] = {}  # by HAVING, the share of the keys that windows kept, at most
        self.covered: int | None = None  # slices that begin before are there, as far back as they are needed
        self._slices = np.empty(0, np.int64)  # their starts, of those that have rows
        self._rows = np.empty(0, np.int64)  # how many rows each has
        self._total = 0  # of these
        self._offset = 0  # the number of the first
        self._form: Form = self._new_form(0, 0, 0)

    def advance(self, opened: Opened, horizon: int, until: int) -> None:
        """Append the slices that end at or before `until`, and forget those that begin before `horizon`."""
        until = until // self.store.width * self.store.width
        begin = horizon if self.covered is None else max(self.covered, horizon)
        if self.covered is None or until > self.covered:
            new = self._read(opened, begin, until)
            if new and len(self._slices) and self._outgrows(new[0]):
                self._clear()
                new = self._read(opened, horizon, until)
            self._append(new)
            self.covered = until
        until = self.covered
        self._trim(horizon)
        if self._is_unsuitable():
            self._clear()
            self._append(self._read(opened, horizon, until))
            self.covered = until

    def due(self, spans: Sequence[DueRange], most: int = _EVER) -> tuple[I64, I64]:
        """The first due windows that have a slice, at most so many of each span: the number of the span, and the start
        of the window."""
        if not spans or not len(self._slices):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        each = [(s.grid.range, s.grid.slide, max(s.opened, -_EVER), min(s.until, _EVER)) for s in spans]
        ranges, slides, opened, until = np.ascontiguousarray(np.array(each, np.int64).T)
        return windows_due(self._slices, ranges, slides, opened, until, most)

    @property
    def rows(self) -> int:
        """How many rows of slices it has."""
        return self._total

    @property
    def nbytes(self) -> int:
        """The memory that it takes; of mapped buckets nothing."""
        return self._form.nbytes

    @property
    def row_bytes(self) -> int:
        """The size of a key with all its parts, on average."""
        return self._form.key_bytes + 8 * len(self.store.schema)

    def bound(self, span: DueRange) -> int:
        """An upper bound of the rows of all due windows, found at little cost."""
        if not len(self._slices):
            return 0
        grid = span.grid
        first = max(span.opened, grid.first(int(self._slices[0])))
        windows = (min(span.until - 1, int(self._slices[-1])) - first) // grid.slide + 1
        return max(0, windows) * min(self._total, self._form.most_keys)

    def count(self, span: DueRange) -> int:
        """How many due windows have a slice, without looking at each."""
        length, slide = span.grid.range, span.grid.slide
        first, last = (self._slices - length) // slide + 1, self._slices // slide
        # A window that contains a slice and begins at or before the one before it contains that one too.
        new = np.maximum(first[1:], last[:-1] + 1)
        begin = np.maximum(np.concatenate((first[:1], new)), -(-max(span.opened, -_EVER) // slide))
        return int(np.maximum(np.minimum(last, (min(span.until, _EVER) - 1) // slide) - begin + 1, 0).sum())

    def sizes(self, starts: I64, ends: I64) -> I64:
        """For each window an upper bound of its rows."""
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._rows)))
        rows = before[np.searchsorted(self._slices, ends)] - before[np.searchsorted(self._slices, starts)]
        found: I64 = np.minimum(rows, self._form.most_keys)
        return found

    def read(
        self, parts: Sequence[Accumulator], present: Accumulator, starts: I64, ends: I64, keep: Keep | None = None
    ) -> tuple[pa.RecordBatch, I64]:
        """One row for each window and key that `present` counts, with the columns of the store's keys and the parts
        (and perhaps more); and the window's number in `starts`, in order. Rows that `keep` leaves out may be missing.
        """
        if isinstance(self._form, SparseSlices):
            found = self._form.read(parts, present, starts, ends, keep and self._counting(keep))
        else:
            begins = np.searchsorted(self._slices, starts) + self._offset
            found = self._form.read(parts, present, begins, np.searchsorted(self._slices, ends) + self._offset)
        self.reads += 1
        self.windows_read += len(starts)
        self.keys_read += len(found[1])
        self.values_read += len(found[1]) * (len(self.store.keys) + len(parts))
        return found

    def _counting(self, keep: Keep) -> Keep:
        """The same; the keys that are left out were read as well."""

        def counting(window: int, parts: PartsOf) -> np.ndarray | None:
            wanted = keep(window, parts)
            if wanted is not None:
                self.keys_read += len(wanted) - int(wanted.sum())
            return wanted

        return counting

    def _read(self, opened: Opened, begin: int, until: int) -> list[tuple[pa.RecordBatch, I64]]:
        """Rows of slices, in the order of slices: of all buckets, or, where reading adds them up, of each."""
        chosen = []
        for bucket in opened(begin, until):
            inside = (bucket.tau >= begin) & (bucket.tau < until)
            if self._rows_of is not None:
                inside &= self._rows_of(bucket)
            if inside.all():
                chosen.append((bucket.rows, bucket.tau))
            elif inside.any():
                chosen.append((bucket.rows.filter(pa.array(inside)), bucket.tau[inside]))
        # Without slices a new form is chosen, which may be one that has a key of a slice once.
        adds_up = isinstance(self._form, SparseSlices) and len(self._slices) > 0 and len(chosen) <= _FEW_BUCKETS
        if adds_up or len(chosen) <= 1:
            return [_by_slice(*each) for each in chosen]  # a bucket has one row for each slice and key
        rows = pa.Table.from_batches([rows for rows, _ in chosen]).combine_chunks().to_batches()[0]
        return [combined_rows(self.store, rows, np.concatenate([tau for _, tau in chosen]))]

    def _append(self, found: list[tuple[pa.RecordBatch, I64]]) -> None:
        if not found:
            return
        if not len(self._slices):
            ((rows, tau),) = found
            self._form = self._new_form(len(tau), *_extent(self.store, rows, tau))
            self._offset = 0
        new = np.concatenate([tau for _, tau in found])
        starts, rows_of = _counted(new if len(found) == 1 else np.sort(new))
        end = self._offset + len(self._slices)
        self._slices = np.concatenate((self._slices, starts))
        self._rows = np.concatenate((self._rows, rows_of))
        self._total = int(self._rows.sum())
        for rows, tau in found:
            if isinstance(self._form, SparseSlices):
                self._form.extend(rows, tau)
            else:
                self._form.extend(rows, np.repeat(np.arange(end, end + len(starts)), rows_of), end + len(starts))

    def _trim(self, horizon: int) -> None:
        unused = int(np.searchsorted(self._slices, horizon))
        self._slices, self._rows, self._offset = self._slices[unused:], self._rows[unused:], self._offset + unused
        self._total = int(self._rows.sum())
        self._form.trim(horizon if isinstance(self._form, SparseSlices) else self._offset)

    def _new_form(self, rows: int, slices: int, keys: int) -> Form:
        longest = self.longest // self.store.width
        structure = structure_for(self.store, longest, rows, slices, keys)
        if structure is Structure.LISTS:
            return SparseSlices(self.store)
        return (Matrix if structure is Structure.MATRIX else SliceTree)(self.store, longest)

    def _outgrows(self, new: tuple[pa.RecordBatch, I64]) -> bool:
        """Whether a matrix may not get these rows: most of it would be empty, or it would be too large."""
        if not isinstance(self._form, Matrix):
            return False
        slices, keys = _extent(self.store, *new)
        slices, keys = slices + len(self._slices), self._form.most_keys + (keys if self.store.keys else 0)
        longest = self.longest // self.store.width
        return is_sparse(slices * keys, self._total + len(new[1])) or is_too_large(self.store, longest, slices, keys)

    def _is_unsuitable(self) -> bool:
        return isinstance(self._form, Matrix) and is_sparse(self._form.cells, self._total)


def _by_slice(rows: pa.RecordBatch, tau: I64) -> tuple[pa.RecordBatch, I64]:
    if (tau[1:] >= tau[:-1]).all():
        return rows, tau
    order = np.argsort(tau, kind="stable")
    return rows.take(pa.array(order)), tau[order]


def _counted(tau: I64) -> tuple[I64, I64]:
    """The starts of slices, and how many rows each has; rows stand in the order of slices."""
    first = np.flatnonzero(np.diff(tau, prepend=tau[0] - 1))
    return tau[first], np.diff(first, append=len(tau))


def _extent(store: SliceStore, rows: pa.RecordBatch, tau: I64) -> tuple[int, int]:
    """How many slices and keys there are; no key is counted where the number does not matter."""
    slices = 1 + int(np.count_nonzero(np.diff(tau)))
    if slices <= 1 or not store.keys:
        return slices, len(tau) if store.keys else 1
    return slices, len(combined_rows(store, rows, np.zeros(len(tau), np.int64), ())[1])
