"""What passes over final slices read, in arrays that rows are appended to and forgotten from.

A log has the rows with something that one accumulator counts, in the order of their slices (of pairs: of those of
their newest members): the number of the key of each, and the values of the parts that are read of them. So a pass is a
few loops over a run of each array, whatever the number of ticks that the rows have come in.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import FARTHEST
from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.grouping import ordered_codes
from watersmeet.aggregate.slice_store import EARLIEST, SliceStore
from watersmeet.store.codes import fixed_width
from watersmeet.store.kernels import I64

_SMALLEST = 1 << 10
_NEARLY = 0.8  # of an array: what takes more gets a larger one,
_MUCH = 8  # and one with so many times the room a smaller one
_NARROW = (np.uint8, np.uint16, np.int32)  # integers are kept in the first that holds them
_BEFORE_ALL = -(1 << 62)


class Appended:
    """An array with room at its end. Integers are as narrow as they may be, as most are small and memory is slow; as
    long as all are 0, as the high digits of most sums, there is no array."""

    def __init__(self) -> None:
        self._array: np.ndarray | None = None
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def nbytes(self) -> int:
        return 0 if self._array is None else self._array.nbytes

    def view(self, first: int, last: int) -> np.ndarray:
        """Some rows; nothing where all are 0."""
        if self._array is None:
            return np.empty(0, np.uint8)
        return self._array[self._begin + first : self._begin + last]

    def append(self, values: np.ndarray, rows: int) -> None:
        """Append so many rows; without values they are 0."""
        before = len(self)
        if self._array is None:
            if not len(values):
                self._end += rows
                return
            self._begin, self._end = 0, before
            self._array = np.zeros(_room(before + rows), values.dtype)
        kind = np.promote_types(self._array.dtype, values.dtype) if len(values) else self._array.dtype
        if kind != self._array.dtype or self._end + rows > len(self._array):
            self._move(kind, before, rows)
        self._array[self._end : self._end + rows] = values if len(values) else 0
        self._end += rows

    def _move(self, kind: np.dtype, before: int, rows: int) -> None:
        """To the begin of the array, or of a new one where it is too small or too narrow."""
        assert self._array is not None
        kept = self._array[self._begin : self._end]
        room, needed = len(self._array), before + rows
        if kind == self._array.dtype and room <= _MUCH * max(needed, _SMALLEST) and needed <= _NEARLY * room:
            self._array[:before] = kept
        else:
            self._array = np.empty(_room(before + rows), kind)
            self._array[:before] = kept
        self._begin, self._end = 0, before

    def forget(self, rows: int) -> None:
        """Forget the first rows."""
        self._begin += rows

    def cut(self, rows: int) -> np.ndarray:
        """Take the last rows away."""
        before = len(self) - rows
        taken = self.view(before, len(self)).copy()
        self._end -= rows
        return taken

    def change(self, numbers: np.ndarray) -> None:
        """Replace each value by the one with its number."""
        if self._array is not None:
            self._array[self._begin : self._end] = numbers[self._array[self._begin : self._end]]


class SliceLog:
    def __init__(self, store: SliceStore, present: Accumulator) -> None:
        self.store, self._present = store, present
        self._starts = np.empty(0, np.int64)  # of slices,
        self._firsts = np.zeros(1, np.int64)  # and the first row of each, by numbers that stay; and the last row's end
        self._keys = Appended()
        self._earliest: Appended | None = Appended() if store.spread else None
        self._values: dict[str, Appended] = {}
        self._parts: dict[str, Accumulator] = {}  # by column
        self.read_until = _BEFORE_ALL  # the newest slice when it was read last

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._arrays())

    def _arrays(self) -> Iterable[Appended]:
        yield self._keys
        if self._earliest is not None:
            yield self._earliest
        yield from self._values.values()

    def lacks(self, parts: Iterable[Accumulator]) -> bool:
        return any(name not in self._values for part in parts for name in self.store.columns_of(part))

    def ask_for(self, parts: Iterable[Accumulator]) -> None:
        """Have these parts too, of rows that are appended from now on."""
        for part in parts:
            for name in self.store.columns_of(part):
                self._values.setdefault(name, Appended())
                self._parts[name] = part

    @property
    def parts(self) -> tuple[Accumulator, ...]:
        return tuple(dict.fromkeys(self._parts.values()))

    def append(self, rows: pa.RecordBatch, slices: I64, keys: np.ndarray) -> None:
        """Rows in the order of slices, with the numbers of their keys."""
        chosen = None
        if self._present != ROWS:
            (name,) = self.store.columns_of(self._present)
            chosen = np.flatnonzero(fixed_width(rows.column(name), np.int64))
            slices, keys = slices[chosen], keys[chosen]
        if not len(keys):
            return
        new = {name: _numbers(rows.column(name), part, chosen) for name, part in self._parts.items()}
        earliest = None
        if self._earliest is not None:
            earliest = fixed_width(rows.column(EARLIEST), np.int64)
            earliest = earliest if chosen is None else earliest[chosen]
        if len(self._starts) and slices[0] < self._starts[-1]:
            slices, keys, earliest, new = self._merged(slices, keys, earliest, new)
        self._append_slices(slices)
        self._keys.append(keys, len(keys))
        if self._earliest is not None and earliest is not None:
            self._earliest.append(earliest, len(keys))
        for name, values in new.items():
            self._values[name].append(values, len(keys))

    def _append_slices(self, slices: I64) -> None:
        first = np.flatnonzero(np.diff(slices, prepend=slices[0] - 1))
        starts, end = slices[first], int(self._firsts[-1])
        if len(self._starts) and starts[0] == self._starts[-1]:
            starts, first = starts[1:], first[1:]
        self._starts = np.concatenate((self._starts, starts))
        self._firsts = np.concatenate((self._firsts[:-1], end + first, [end + len(slices)]))

    def _merged(
        self, slices: I64, keys: np.ndarray, earliest: I64 | None, new: dict[str, np.ndarray]
    ) -> tuple[I64, np.ndarray, I64 | None, dict[str, np.ndarray]]:
        """The rows with those at the end whose slices are newer, which are taken away."""
        at = int(np.searchsorted(self._starts, slices[0], side="right"))
        rows = int(self._firsts[-1] - self._firsts[at])
        before = np.repeat(self._starts[at:], np.diff(self._firsts[at:]))
        self._starts, self._firsts = self._starts[:at], self._firsts[: at + 1]
        slices = np.concatenate((before, slices))
        order = np.argsort(slices, kind="stable")

        def both(kept: Appended, values: np.ndarray) -> np.ndarray:
            old, count = kept.cut(rows), len(slices) - rows
            if not len(old) and not len(values):
                return values
            whole = [part if len(part) else np.zeros(size, np.uint8) for part, size in ((old, rows), (values, count))]
            return np.concatenate(whole)[order]

        merged = {name: both(self._values[name], values) for name, values in new.items()}
        if self._earliest is not None and earliest is not None:
            earliest = both(self._earliest, earliest)
        return slices[order], both(self._keys, keys), earliest, merged

    def forget(self, horizon: int) -> None:
        """Forget rows of slices that begin before."""
        at = int(np.searchsorted(self._starts, horizon))
        if at:
            rows = int(self._firsts[at] - self._firsts[0])
            self._starts, self._firsts = self._starts[at:], self._firsts[at:]
            for each in self._arrays():
                each.forget(rows)

    def renumber(self, numbers: np.ndarray) -> None:
        """The keys have other numbers."""
        self._keys.change(numbers)

    def between(self, begin: int, end: int) -> tuple[int, int]:
        """The rows of slices that begin from `begin` to before `end`."""
        first, last = np.searchsorted(self._starts, (begin, end))
        return int(self._firsts[first] - self._firsts[0]), int(self._firsts[last] - self._firsts[0])

    def keys(self, first: int, last: int) -> np.ndarray:
        return self._keys.view(first, last)

    def earliest(self, first: int, last: int) -> I64 | None:
        """Of pairs, the slices of their oldest members."""
        return None if self._earliest is None else self._earliest.view(first, last)

    def values(self, part: Accumulator, first: int, last: int) -> list[np.ndarray]:
        """The columns of a part as numbers; an extreme that is NULL is farther than any other. A column of zeros may
        be empty."""
        return [self._values[name].view(first, last) for name in self.store.columns_of(part)]


def _room(rows: int) -> int:
    return max(_SMALLEST, rows + rows // 2)


def _numbers(column: pa.Array, part: Accumulator, chosen: I64 | None) -> np.ndarray:
    """The values of some rows as `SliceLog.values` has them; nothing where all are 0."""
    if part.function in FARTHEST:
        codes = ordered_codes(column)
        if column.null_count:
            codes = np.where(np.asarray(column.is_valid()), codes, FARTHEST[part.function])
        return codes if chosen is None else codes[chosen]
    values = fixed_width(column, column.type.to_pandas_dtype())
    return _narrow(values if chosen is None else values[chosen])


def _narrow(values: np.ndarray) -> np.ndarray:
    if values.dtype != np.int64 or not len(values):
        return values
    low, high = values.min(), values.max()
    if low == high == 0:
        return values[:0].astype(np.uint8)
    for kind in _NARROW:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values
