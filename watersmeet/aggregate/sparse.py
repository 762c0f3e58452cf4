"""Final slices as a list of what each has: for stores with many keys, most of them in few slices.

A window is read by a *back pass*: from its last slice to its first, the rows of the slices are added to the totals of
their keys. Windows that end together are on the way of one pass, the shortest first: totals only grow, so nothing is
ever subtracted, and what a window has when the pass reaches its begin is final. A pass costs the rows of the longest
of these windows, and a window the keys that it has, or only those that pass HAVING.

Rows stay where they are, in memory-mapped buckets: this keeps the number of the key of each row, and of each key its
values. A key may be in a slice more than once, as long as the bucket of a tick and that of another were not merged.

*Pairs*, the results of a join, are in the windows that contain all their members: their rows have the slice of the
oldest member besides that of the newest. They become final with the newest, and a pass meets them by the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import FARTHEST, normalized
from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.grouping import ordered_codes, value_of
from watersmeet.aggregate.held import own_bytes
from watersmeet.aggregate.kernels import add_moments, add_values, meet_keys, take_extremes
from watersmeet.aggregate.key_table import KeyTable
from watersmeet.aggregate.slice_store import EARLIEST, SliceStore
from watersmeet.model.types import has_code
from watersmeet.store.codes import EVERY_ROW, fixed_width
from watersmeet.store.kernels import I32, I64, U8

PartsOf = Callable[[Sequence[Accumulator]], pa.RecordBatch]  # of all keys of a window
Keep = Callable[[int, PartsOf], np.ndarray | None]  # window, parts of its keys -> which are wanted; None: all
_SMALL_CHUNK = 1 << 14  # rows
_FEW = 1 << 12  # keys that are never too many
_BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True)
class _Chunk:
    """Rows of some slices, in the order of the slices; of pairs, in that of their oldest members."""

    store: SliceStore
    rows: pa.RecordBatch
    begins: I64  # of each row, the start of its slice
    newest: I64  # and that of its newest member: of rows of one slice the same
    keys: np.ndarray  # the number of the key of each row, int32
    chosen: I64 | None = None  # None: all of these rows; the arrays have an entry for each that is chosen
    _values: dict[str, np.ndarray] = field(default_factory=dict)
    _passing: dict[Accumulator, _Chunk] = field(default_factory=dict)

    @classmethod
    def sorted(cls, store: SliceStore, rows: pa.RecordBatch, begins: I64, newest: I64, keys: np.ndarray) -> _Chunk:
        if (begins[1:] < begins[:-1]).any():
            order = np.argsort(begins, kind="stable")
            rows, begins, newest, keys = rows.take(pa.array(order)), begins[order], newest[order], keys[order]
        return cls(store, rows, begins, newest, keys)

    @classmethod
    def of(cls, chunks: Sequence[_Chunk]) -> _Chunk:
        """The rows of consecutive chunks."""
        rows = pa.Table.from_batches([chunk.rows for chunk in chunks]).combine_chunks().to_batches()[0]
        begins, newest, keys = (
            np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("begins", "newest", "keys")
        )
        return cls.sorted(chunks[0].store, rows, begins, newest, keys)

    @cached_property
    def until(self) -> int:
        """The start of the newest slice."""
        return int(self.newest.max(initial=_BEFORE_ALL))

    def is_small_beside(self, later: _Chunk) -> bool:
        """Whether the two are better one chunk: with ticks of few rows there would be too many."""
        return len(self.keys) + len(later.keys) <= _SMALL_CHUNK and len(self.keys) <= 2 * len(later.keys)

    def renumbered(self, numbers: np.ndarray) -> _Chunk:
        return _Chunk(self.store, self.rows, self.begins, self.newest, numbers[self.keys])

    @cached_property
    def _own_bytes(self) -> int:
        rows = own_bytes(self.rows) if self.chosen is None else 0  # those of `passing` are the same
        arrays = {id(each): each for each in (self.begins, self.newest, self.keys)}
        return rows + sum(each.nbytes for each in arrays.values() if each.flags.writeable)  # not mapped

    @property
    def nbytes(self) -> int:
        """The memory that it takes; of mapped rows nothing."""
        made = sum(each.nbytes for each in self._values.values() if each.base is None or self.chosen is not None)
        return self._own_bytes + made + sum(each.nbytes for each in self._passing.values())

    def passing(self, present: Accumulator) -> _Chunk:
        """The rows with something that `present` counts: a pass over them does not look at the others."""
        if present == ROWS:
            return self
        if present not in self._passing:
            (counts,) = self.values(present, slice(None))
            chosen = np.flatnonzero(counts != 0)
            newest = begins = self.begins[chosen]
            if self.newest is not self.begins:
                newest = self.newest[chosen]
            self._passing[present] = _Chunk(self.store, self.rows, begins, newest, self.keys[chosen], chosen)
        return self._passing[present]

    def values(self, part: Accumulator, some: slice) -> list[np.ndarray]:
        """The columns of a part as numbers, of some rows; an extreme that is NULL is farther than any other. A column
        of zeros may be empty."""
        return [self._value(name, part)[some] for name in self.store.columns_of(part)]

    def _value(self, name: str, part: Accumulator) -> np.ndarray:
        found = self._values.get(name)
        if found is None:
            column = self.rows.column(name)
            if self.chosen is not None:
                column = column.take(pa.array(self.chosen))
            if part.function in FARTHEST:
                found = ordered_codes(column)
                if column.null_count:
                    found = np.where(np.asarray(column.is_valid()), found, FARTHEST[part.function])
            else:
                found = _narrow(fixed_width(column, column.type.to_pandas_dtype()))
            self._values[name] = found
        return found


class SparseSlices:
    in_words: ClassVar[str] = "a list for each slice"

    def __init__(self, store: SliceStore) -> None:
        self.store = store
        self._key_schema = pa.schema([store.schema.field(name) for name in store.key_names])
        self._keys = KeyTable(self._key_schema)
        self._places = np.empty(0, np.int32)  # by key, its place in a pass; -1 between passes
        self._chunks: list[_Chunk] = []
        self._kept = 0  # keys, when they were looked through last

    @property
    def most_keys(self) -> int:
        """An upper bound of the keys of a window."""
        return len(self._keys)

    @property
    def key_bytes(self) -> int:
        """The size of a key on average."""
        return self._keys.nbytes // max(1, len(self._keys))

    @property
    def nbytes(self) -> int:
        """The memory that it takes; of mapped rows nothing."""
        return self._keys.nbytes + self._places.nbytes + sum(chunk.nbytes for chunk in self._chunks)

    def extend(self, rows: pa.RecordBatch, newest: I64) -> None:
        """Append rows of slices that are final; a key may be in a slice several times."""
        keys = self._keys.numbers(rows.select(self.store.key_names))
        begins = fixed_width(rows.column(EARLIEST), np.int64) if self.store.spread else newest
        self._chunks.append(_Chunk.sorted(self.store, rows, begins, newest, keys))
        while len(self._chunks) > 1 and self._chunks[-2].is_small_beside(self._chunks[-1]):
            self._chunks[-2:] = [_Chunk.of(self._chunks[-2:])]

    def trim(self, horizon: int) -> None:
        """Forget rows of slices that begin before."""
        self._chunks = [chunk for chunk in self._chunks if chunk.until >= horizon]
        if len(self._keys) > 2 * self._kept + _FEW:
            self._recycle()

    def _recycle(self) -> None:
        """Forget the keys without rows, if they are at least half of all."""
        alive = np.zeros(len(self._keys), bool)
        for chunk in self._chunks:
            alive[chunk.keys] = True
        chosen = np.flatnonzero(alive)
        if 2 * len(chosen) <= len(alive):
            renumbered = np.cumsum(alive, dtype=np.int32) - np.int32(1)
            self._chunks = [chunk.renumbered(renumbered) for chunk in self._chunks]
            self._keys.keep(chosen)
            self._places = self._places[:0]
        self._kept = len(self._keys)

    def read(
        self, parts: Sequence[Accumulator], present: Accumulator, starts: I64, ends: I64, keep: Keep | None = None
    ) -> tuple[pa.RecordBatch, I64]:
        """For each window one row for each key that `present` counts, without those that `keep` leaves out.

        Returns the rows, with the columns of the keys and parts, and the window of each, in order."""
        wanted = list(dict.fromkeys((*parts, present, *(part.counted for part in parts))))
        if len(self._places) < len(self._keys):
            self._places = np.full(len(self._keys), -1, np.int32)
        passing = [chunk.passing(present) for chunk in reversed(self._chunks)]
        found: dict[int, pa.RecordBatch] = {}
        for end in np.unique(ends):
            together = np.flatnonzero(ends == end)
            back = _BackPass(self.store, wanted, self._places, self._most_rows(passing, int(starts[together].min())))
            try:
                at = int(end)
                for window in together[np.argsort(-starts[together], kind="stable")].tolist():
                    begin = int(starts[window])
                    for chunk in passing:
                        first, last = np.searchsorted(chunk.begins, (begin, at)).tolist()
                        if first < last:
                            back.add(chunk, slice(first, last), int(end))
                    at = min(at, begin)
                    found[window] = self._window(back, window, keep)
            finally:
                back.finish()
        order = sorted(found)
        rows = pa.Table.from_batches([found[window] for window in order]).combine_chunks().to_batches()
        numbers = np.repeat(np.array(order, np.int64), [found[window].num_rows for window in order])
        return (rows[0] if rows else found[order[0]]), numbers

    def _most_rows(self, passing: Sequence[_Chunk], begin: int) -> int:
        rows = sum(len(chunk.keys) for chunk in passing if chunk.until >= begin)
        return min(rows, len(self._keys))

    def _window(self, back: _BackPass, window: int, keep: Keep | None) -> pa.RecordBatch:
        wanted = None if keep is None else keep(window, back.parts)
        chosen = None if wanted is None else np.flatnonzero(wanted)
        parts, keys = back.parts(back.wanted, chosen), back.keys()
        keys = keys if chosen is None else keys[chosen]
        columns = [self._keys.column(at, keys) for at in range(len(self.store.keys))]
        return pa.RecordBatch.from_arrays(
            [*columns, *parts.columns], names=[*self.store.key_names, *parts.schema.names]
        )


class _BackPass:
    """Totals of the keys that a pass has met, in the order in which it met them."""

    def __init__(self, store: SliceStore, parts: Sequence[Accumulator], places: np.ndarray, most: int) -> None:
        self._store, self._places, self.wanted = store, places, parts
        self._met = np.empty(most, np.int32)
        self._found = 0
        self._totals = {part: _zeros(store, part, most) for part in parts}

    def add(self, chunk: _Chunk, some: slice, end: int) -> None:
        """Add those of some rows of a chunk whose newest member is before the end of the window."""
        passing = EVERY_ROW if chunk.until < end else (chunk.newest[some] < end).view(np.uint8)
        at, self._found = meet_keys(chunk.keys[some], passing, self._places, self._met, self._found)
        for part, totals in self._totals.items():
            values = chunk.values(part, some)
            if part.function == "moments":
                values = [*chunk.values(part.counted, some), *values]
            _add(part, totals, values, at, passing)

    def keys(self) -> np.ndarray:
        return self._met[: self._found]

    def parts(self, wanted: Sequence[Accumulator], chosen: I64 | None = None) -> pa.RecordBatch:
        """What the keys have, or some of them, with the columns of the parts."""
        names: list[str] = []
        columns: list[pa.Array] = []

        def taken(total: np.ndarray) -> np.ndarray:
            return total[: self._found].copy() if chosen is None else total[chosen]

        for part in wanted:
            own = self._store.columns_of(part)
            values = [taken(total) for total in self._totals[part]]
            names += own
            if part.function in FARTHEST:
                known = taken(self._totals[part.counted][0]) > 0
                columns.append(value_of(values[0], known, self._store.schema.field(own[0]).type))
            elif part.function == "moments":
                columns += [pa.array(each) for each in values[1:]]
            elif values[0].dtype == np.float64:
                columns.append(pa.array(values[0]))
            else:
                columns += [pa.array(each) for each in normalized(values)]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def finish(self) -> None:
        self._places[self._met[: self._found]] = -1


def fits(store: SliceStore) -> bool:
    """Whether all parts have values of 64 bits, and rows have keys."""
    return bool(store.keys) and all(has_code(kind) for part in store.parts for _, kind in part.columns(0))


def _zeros(store: SliceStore, part: Accumulator, most: int) -> list[np.ndarray]:
    """The totals of no rows: of moments also their number."""
    if part.function in FARTHEST:
        return [np.full(most, FARTHEST[part.function])]
    if part.function == "moments":
        return [np.zeros(most, np.int64), np.zeros(most), np.zeros(most)]
    return [np.zeros(most, store.schema.field(name).type.to_pandas_dtype()) for name in store.columns_of(part)]


def _narrow(values: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type of `WHOLE` that holds them, as most counts are small and memory is slow;
    none where all are 0, as the high digits of most sums."""
    if values.dtype != np.int64 or not len(values):
        return values
    low, high = values.min(), values.max()
    if low == high == 0:
        return values[:0].astype(np.uint8)
    for kind in (np.uint8, np.uint16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values


def _add(part: Accumulator, totals: list[np.ndarray], values: list[np.ndarray], at: I32, passing: U8) -> None:
    if part.function in FARTHEST:
        take_extremes(at, passing, values[0], part.function == "max", totals[0])
    elif part.function == "moments":
        if len(values[0]):
            add_moments(at, passing, values[0].astype(np.int64), *values[1:], *totals)
    else:
        for total, each in zip(totals, values, strict=True):
            if len(each):
                add_values(at, passing, each, total)
