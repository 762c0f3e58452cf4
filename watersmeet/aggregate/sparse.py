"""Final slices as a list of what each has: for stores with many keys, most of them in few slices.

A window is read by a *back pass*: from its last slice to its first, the rows of the slices are added to the totals of
their keys. Windows that end together are on the way of one pass, the shortest first: totals only grow, so nothing is
ever subtracted, and what a window has when the pass reaches its begin is final. A pass costs the rows of the longest
of these windows, and a window the keys that it has, or only those that pass HAVING.

Rows stay where they are, in memory-mapped buckets: this keeps the number of the key of each row, of each key its
values, and what passes read in logs (slice_log.py). A key may be in a slice more than once, as long as the bucket of a
tick and that of another were not merged.

*Pairs*, the results of a join, are in the windows that contain all their members: their rows have the slice of the
oldest member besides that of the newest. They become final with the newest, by which they stand in logs; a pass is for
one window then, and leaves out those whose oldest member is before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import FARTHEST, normalized
from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import value_of
from watersmeet.aggregate.held import own_bytes
from watersmeet.aggregate.kernels import add_moments, add_values, meet_keys, take_extremes
from watersmeet.aggregate.key_table import KeyTable
from watersmeet.aggregate.slice_log import SliceLog
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.store.codes import EVERY_ROW
from watersmeet.store.kernels import I32, I64, U8

PartsOf = Callable[[Sequence[Accumulator]], pa.RecordBatch]  # of all keys of a window
Keep = Callable[[int, PartsOf], np.ndarray | None]  # window, parts of its keys -> which are wanted; None: all
_SMALL_CHUNK = 1 << 14  # rows
_FEW = 1 << 12  # keys that are never too many
_BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True)
class _Chunk:
    """Rows of some slices, in the order of the slices; of pairs, of those of their newest members."""

    rows: pa.RecordBatch
    slices: I64  # of each row, the start
    keys: np.ndarray  # the number of the key of each row, int32

    @classmethod
    def of(cls, chunks: Sequence[_Chunk]) -> _Chunk:
        """The rows of consecutive chunks."""
        rows = pa.Table.from_batches([chunk.rows for chunk in chunks]).combine_chunks().to_batches()[0]
        slices, keys = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("slices", "keys"))
        if (slices[1:] < slices[:-1]).any():
            order = np.argsort(slices, kind="stable")
            rows, slices, keys = rows.take(pa.array(order)), slices[order], keys[order]
        return cls(rows, slices, keys)

    @cached_property
    def until(self) -> int:
        """The start of the newest slice."""
        return int(self.slices[-1]) if len(self.slices) else _BEFORE_ALL

    def is_small_beside(self, later: _Chunk) -> bool:
        """Whether the two are better one chunk: with ticks of few rows there would be too many."""
        return len(self.keys) + len(later.keys) <= _SMALL_CHUNK and len(self.keys) <= 2 * len(later.keys)

    def renumbered(self, numbers: np.ndarray) -> _Chunk:
        return _Chunk(self.rows, self.slices, numbers[self.keys])

    @cached_property
    def nbytes(self) -> int:
        """The memory that it takes; of mapped rows nothing."""
        mapped = 0 if self.slices.flags.writeable else self.slices.nbytes
        return own_bytes(self.rows) + self.slices.nbytes - mapped + self.keys.nbytes


class SparseSlices:
    def __init__(self, store: SliceStore) -> None:
        self.store = store
        self._key_schema = pa.schema([store.schema.field(name) for name in store.key_names])
        self._keys = KeyTable(self._key_schema)
        self._places = np.empty(0, np.int32)  # by key, its place in a pass; -1 between passes
        self._chunks: list[_Chunk] = []
        self._logs: dict[Accumulator, SliceLog] = {}  # by what is present in their rows
        self._scratch = Scratch()
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
        rows = sum(chunk.nbytes for chunk in self._chunks) + sum(log.nbytes for log in self._logs.values())
        return self._keys.nbytes + self._places.nbytes + rows + self._scratch.nbytes

    def extend(self, rows: pa.RecordBatch, newest: I64) -> None:
        """Append rows of slices that are final; a key may be in a slice several times."""
        chunk = _Chunk(rows, newest, self._keys.numbers(rows.select(self.store.key_names)))
        for log in self._logs.values():
            log.append(chunk.rows, chunk.slices, chunk.keys)
        self._chunks.append(chunk)
        while len(self._chunks) > 1 and self._chunks[-2].is_small_beside(self._chunks[-1]):
            self._chunks[-2:] = [_Chunk.of(self._chunks[-2:])]

    def trim(self, horizon: int) -> None:
        """Forget rows of slices that begin before."""
        self._chunks = [chunk for chunk in self._chunks if chunk.until >= horizon]
        self._logs = {present: log for present, log in self._logs.items() if log.read_until >= horizon}
        for log in self._logs.values():
            log.forget(horizon)
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
            for log in self._logs.values():
                log.renumber(renumbered)
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
        log = self._log_of(present, wanted)
        found: dict[int, pa.RecordBatch] = {}
        for end in np.unique(ends).tolist():
            together = np.flatnonzero(ends == end)
            windows = together[np.argsort(-starts[together], kind="stable")].tolist()
            for some in [[window] for window in windows] if self.store.spread else [windows]:
                by_begin = [(window, int(starts[window])) for window in some]
                back = _BackPass(log, wanted, (by_begin[-1][1], end), self._places, self._scratch)
                try:
                    for window, begin in by_begin:
                        back.go_to(begin)
                        found[window] = self._window(back, window, keep)
                finally:
                    back.finish()
        order = sorted(found)
        if len(order) == 1:
            rows = found[order[0]]
            return rows, np.full(rows.num_rows, order[0], np.int64)
        rows = pa.Table.from_batches([found[window] for window in order]).combine_chunks().to_batches()
        numbers = np.repeat(np.array(order, np.int64), [found[window].num_rows for window in order])
        return (rows[0] if rows else found[order[0]]), numbers

    def _log_of(self, present: Accumulator, parts: Sequence[Accumulator]) -> SliceLog:
        """The log of the rows with something that is present, with these parts."""
        found = self._logs.get(present)
        if found is None or found.lacks(parts):
            made = SliceLog(self.store, present)
            made.ask_for([*(found.parts if found else ()), *parts])
            for chunk in self._chunks:
                made.append(chunk.rows, chunk.slices, chunk.keys)
            self._logs[present] = found = made
        found.read_until = max((chunk.until for chunk in self._chunks), default=_BEFORE_ALL)
        return found

    def _window(self, back: _BackPass, window: int, keep: Keep | None) -> pa.RecordBatch:
        wanted = None if keep is None else keep(window, back.parts)
        chosen = None if wanted is None else np.flatnonzero(wanted)
        parts, keys = back.parts(back.wanted, chosen), back.keys()
        keys = keys if chosen is None else keys[chosen]
        columns = [self._keys.column(at, keys) for at in range(len(self.store.keys))]
        return pa.RecordBatch.from_arrays(
            [*columns, *parts.columns], names=[*self.store.key_names, *parts.schema.names]
        )


class Scratch:
    """Arrays for passes, which have what they are filled with between passes: new ones would be new pages."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, int], list[np.ndarray]] = {}

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for some in self._free.values() for each in some)

    def take(self, size: int, kind: Any, filling: int = 0) -> np.ndarray:
        free = self._free.get((np.dtype(kind).str, filling), [])
        if free and len(free[-1]) >= size:
            return free.pop()
        free.clear()
        return np.full(size + size // 4, filling, kind)

    def give_back(self, array: np.ndarray, used: int, filling: int = 0) -> None:
        array[:used] = filling
        self._free.setdefault((array.dtype.str, filling), []).append(array)


class _BackPass:
    """Totals of the keys that a pass has met, in the order in which it met them. Of pairs it is for one window."""

    def __init__(
        self,
        log: SliceLog,
        parts: Sequence[Accumulator],
        span: tuple[int, int],
        places: np.ndarray,
        scratch: Scratch,
    ) -> None:
        """`span`: the begin of the longest window and the end of all of them."""
        self._end = span[1]
        self._log, self._places, self._scratch, self.wanted = log, places, scratch, parts
        first, self._reached = log.between(*span)
        rows = self._reached - first
        most = min(rows, len(places))
        self._found = 0
        self._met, self._at = scratch.take(most, np.int32), scratch.take(rows, np.int32)
        self._totals = {
            part: [scratch.take(most, kind, filling) for kind, filling in _totals(log.store, part)] for part in parts
        }

    def go_to(self, begin: int) -> None:
        """Add the rows up to the begin of the next window."""
        first, _ = self._log.between(begin, self._end)
        if first < self._reached:
            self._add(first, self._reached, begin)
            self._reached = first

    def _add(self, first: int, last: int, begin: int) -> None:
        log = self._log
        earliest = log.earliest(first, last)
        passing = EVERY_ROW if earliest is None else (earliest >= begin).view(np.uint8)
        at = self._at[: last - first]
        self._found = meet_keys(log.keys(first, last), passing, self._places, self._met, self._found, at)
        for part, totals in self._totals.items():
            values = log.values(part, first, last)
            if part.function == "moments":
                values = [*log.values(part.counted, first, last), *values]
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
            own = self._log.store.columns_of(part)
            values = [taken(total) for total in self._totals[part]]
            names += own
            if part.function in FARTHEST:
                known = taken(self._totals[part.counted][0]) > 0
                columns.append(value_of(values[0], known, self._log.store.schema.field(own[0]).type))
            elif part.function == "moments":
                columns += [pa.array(each) for each in values[1:]]
            elif values[0].dtype == np.float64:
                columns.append(pa.array(values[0]))
            else:
                columns += [pa.array(each) for each in normalized(values)]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def finish(self) -> None:
        self._places[self._met[: self._found]] = -1
        give_back = self._scratch.give_back
        for part, totals in self._totals.items():
            for total, (_, filling) in zip(totals, _totals(self._log.store, part), strict=True):
                give_back(total, self._found, filling)
        for each in (self._met, self._at):
            give_back(each, 0)


def _totals(store: SliceStore, part: Accumulator) -> list[tuple[Any, int]]:
    """The types of the totals of a part, and what they are where there is no row: of moments also their number."""
    if part.function in FARTHEST:
        return [(np.int64, int(FARTHEST[part.function]))]
    if part.function == "moments":
        return [(np.int64, 0), (np.float64, 0), (np.float64, 0)]
    return [(store.schema.field(name).type.to_pandas_dtype(), 0) for name in store.columns_of(part)]


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
