"""Final slices as a matrix of slices and keys: any window of them costs one step for each key.

What can be subtracted (counts, digits of sums) is kept as sums from the first slice on: a window is the difference of
two rows. All else (sums of doubles, extremes, moments) is kept in tables of blocks (see block_kernels.py): a window is
two entries, whatever its length, and no double is ever subtracted.

A slice has a number, in the order of the slices that have rows; times without rows have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import FARTHEST, normalized
from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.block_kernels import (
    entries,
    extend_extremes,
    extend_moments,
    extend_sums,
    paired_moments,
)
from watersmeet.aggregate.grouping import grouped, key_codes, ordered_codes, value_of
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.structure import block_columns, levels_for, own_count, prefix_columns
from watersmeet.store.codes import fixed_width
from watersmeet.store.kernels import I64

_CELLS_AT_ONCE = 1 << 20


class Matrix:
    def __init__(self, store: SliceStore, longest: int) -> None:
        """`longest`: the slices of the longest window."""
        self.store = store
        self._levels = levels_for(longest)
        self._keys = store.schema.empty_table().select(store.key_names).combine_chunks()
        self._count = 0 if store.keys else 1  # of keys
        self._offset = 0  # the number of the first slice
        self._slices = 0
        self._prefix = {name: np.zeros((1, self._count), np.int64) for name in prefix_columns(store)}
        self._blocks: dict[str, np.ndarray] = {
            name: np.zeros((self._levels, 0, self._count), kind) for name, kind in block_columns(store).items()
        }

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        tables = (*self._prefix.values(), *self._blocks.values())
        return int(self._keys.nbytes) + sum(table.nbytes for table in tables)

    @property
    def most_keys(self) -> int:
        """An upper bound of the keys of a window."""
        return self._count

    @property
    def key_bytes(self) -> int:
        """The size of a key on average."""
        return int(self._keys.nbytes) // max(1, self._count)

    @property
    def cells(self) -> int:
        return self._slices * self._count

    def extend(self, rows: pa.RecordBatch, numbers: I64, end: int) -> None:
        """Append slices up to number `end`, with the rows of each: one for each key."""
        begin = self._offset + self._slices
        ids = self._ids(rows)
        self._reserve(end - self._offset)
        at = numbers - self._offset
        for name, prefix in self._prefix.items():
            new = prefix[begin - self._offset + 1 : end - self._offset + 1]
            new[:] = 0
            new[at - (begin - self._offset), ids] = fixed_width(rows.column(name), np.int64)
            new[0] += prefix[begin - self._offset]
            np.cumsum(new, axis=0, out=new)
        self._slices = end - self._offset
        for part in self.store.parts:
            self._extend_blocks(part, rows, (at, ids), begin)

    def _extend_blocks(self, part: Accumulator, rows: pa.RecordBatch, cells: tuple[I64, I64], begin: int) -> None:
        names = self.store.columns_of(part)
        if names[0] not in self._blocks:
            return
        at, ids = cells
        end = self._offset + self._slices
        new = slice(begin - self._offset, self._slices)
        table = self._blocks[names[0]]
        if part.function == "moments":
            tables = n, mean, m2 = tuple(self._blocks[name] for name in (own_count(names[0]), *names))
            counts = rows.column(self.store.columns_of(part.counted)[0]).cast(pa.float64())
            for each, values in zip(tables, (counts, *(rows.column(name) for name in names)), strict=True):
                each[0, new] = 0.0
                each[0, at, ids] = fixed_width(values, np.float64)
            extend_moments(n, mean, m2, self._offset, begin, end, self._count)
        elif part.function == "sum":
            table[0, new] = 0.0
            table[0, at, ids] = fixed_width(rows.column(names[0]), np.float64)
            extend_sums(table, self._offset, begin, end, self._count)
        else:
            column = rows.column(names[0])
            known = np.asarray(column.is_valid())
            table[0, new] = FARTHEST[part.function]
            table[0, at[known], ids[known]] = ordered_codes(column)[known]
            extend_extremes(table, self._offset, begin, end, self._count, part.function == "max")

    def _ids(self, rows: pa.RecordBatch) -> I64:
        """The number of each row's key in the matrix; new keys get new numbers."""
        if not self.store.keys:
            return np.zeros(rows.num_rows, np.int64)
        arriving = pa.Table.from_batches([rows.select(self.store.key_names)])
        both = pa.concat_tables([self._keys, arriving]).combine_chunks()
        codes = [code for column in both.columns for code in key_codes(_one_array(column))]
        groups = grouped(codes)
        if len(groups) > self._count:
            self._keys = both.take(pa.array(groups.first)).combine_chunks()
            self._count = len(groups)
        return groups.ids[len(both) - rows.num_rows :]

    def _reserve(self, slices: int) -> None:
        """Room for so many slices and all keys."""
        for name, prefix in self._prefix.items():
            self._prefix[name] = _larger(prefix, (slices + 1, self._count), 0)
        for name, table in self._blocks.items():
            self._blocks[name] = _larger(table, (self._levels, slices, self._count), self._filling(name))

    def _filling(self, name: str) -> int:
        for part in self.store.parts:
            if part.function in FARTHEST and self.store.columns_of(part)[0] == name:
                return int(FARTHEST[part.function])
        return 0

    def trim(self, begin: int) -> None:
        """Forget the slices before a number, when they are many, and keys that no other slice has, when they are most.

        The arrays stay where they are: new ones would have to grow again at once."""
        unused = begin - self._offset
        if unused <= 0 or 2 * unused < self._slices:
            return
        left = self._slices - unused
        rows = self._prefix[self.store.columns_of(ROWS)[0]]
        alive = np.flatnonzero(rows[self._slices, : self._count] > rows[unused, : self._count])
        for prefix in self._prefix.values():
            prefix[: left + 1] = prefix[unused : unused + left + 1]
        for table in self._blocks.values():
            table[:, :left] = table[:, unused : unused + left]
        self._offset, self._slices = begin, left
        if self.store.keys and 2 * len(alive) <= self._count:
            self._keep(alive)

    def _keep(self, keys: I64) -> None:
        self._keys = self._keys.take(pa.array(keys)).combine_chunks()
        self._prefix = {name: np.ascontiguousarray(prefix[:, keys]) for name, prefix in self._prefix.items()}
        self._blocks = {name: np.ascontiguousarray(table[:, :, keys]) for name, table in self._blocks.items()}
        self._count = len(keys)

    def read(
        self, parts: Sequence[Accumulator], present: Accumulator, begins: I64, ends: I64
    ) -> tuple[pa.RecordBatch, I64]:
        """For each window, of slices from begins[w] to ends[w], one row for each key that `present` counts.

        Returns the rows, with the columns of the keys and parts, and the window of each, in order."""
        begins, ends = begins - self._offset, ends - self._offset
        counted = self._prefix[self.store.columns_of(present)[0]]
        at_once = max(1, _CELLS_AT_ONCE // max(1, self._count))
        windows, keys = [], []
        for first in range(0, len(begins), at_once):
            some = slice(first, first + at_once)
            counts = counted[ends[some], : self._count] - counted[begins[some], : self._count]
            found, places = np.nonzero(counts)
            windows.append(found + first)
            keys.append(places)
        window, key = np.concatenate(windows), np.concatenate(keys)
        names, columns = (
            list(self.store.key_names),
            [column.combine_chunks() for column in self._keys.take(pa.array(key)).columns],
        )
        cells = begins[window], ends[window], key
        for part in parts:
            names += self.store.columns_of(part)
            columns += self._read(part, *cells)
        return pa.RecordBatch.from_arrays(columns, names=names), window

    def _read(self, part: Accumulator, begins: I64, ends: I64, keys: I64) -> list[pa.Array]:
        names = self.store.columns_of(part)

        def difference(name: str) -> I64:
            prefix = self._prefix[name]
            found: I64 = prefix[ends, keys] - prefix[begins, keys]
            return found

        if names[0] in self._prefix:
            return [pa.array(digit) for digit in normalized([difference(name) for name in names])]
        absolute = begins + self._offset, ends + self._offset, keys
        if part.function == "moments":
            pairs = [entries(self._blocks[name], self._offset, *absolute) for name in (own_count(names[0]), *names)]
            single = ends - begins == 1
            left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            right[0] = np.where(single, 0.0, right[0])
            return [pa.array(values) for values in paired_moments(left, right)]
        one, other = entries(self._blocks[names[0]], self._offset, *absolute)
        if part.function == "sum":
            return [pa.array(np.where(ends - begins == 1, one, one + other))]
        best = np.minimum(one, other) if part.function == "min" else np.maximum(one, other)
        known = difference(self.store.columns_of(part.counted)[0]) > 0
        return [value_of(best, known, self.store.schema.field(names[0]).type)]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _larger(array: np.ndarray, shape: tuple[int, ...], filling: int) -> np.ndarray:
    """The array, or a copy with room for twice as much where it is too small."""
    if all(has >= needs for has, needs in zip(array.shape, shape, strict=True)):
        return array
    grown = [has if has >= needs else max(needs, 2 * has) for has, needs in zip(array.shape, shape, strict=True)]
    larger = np.full(grown, filling, array.dtype)
    larger[tuple(slice(0, has) for has in array.shape)] = array
    return larger
