"""Final slices as a tree: for stores in which most keys are in few slices.

Level j combines 2^j slices at a time. A window is at most two nodes of each level, so its cost is that of the keys in
it, times the logarithm of its slices at most, whatever keys other slices have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.combined import combined_rows
from watersmeet.aggregate.held import own_bytes
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.store.codes import fixed_width
from watersmeet.store.kernels import I64

_MOST_CHUNKS = 16


class _Level:
    """Rows of nodes, in the order of their numbers."""

    def __init__(self, store: SliceStore) -> None:
        self.rows = store.schema.empty_table()
        self.nodes = np.empty(0, np.int64)

    def append(self, rows: pa.RecordBatch, nodes: I64) -> None:
        self.rows = pa.concat_tables([self.rows, pa.Table.from_batches([rows])])
        if self.rows.column(0).num_chunks > _MOST_CHUNKS:
            self.rows = self.rows.combine_chunks()
        self.nodes = np.concatenate((self.nodes, nodes))

    def between(self, begin: int, end: int) -> tuple[pa.RecordBatch, I64]:
        first, last = np.searchsorted(self.nodes, (begin, end))
        return _one_batch(self.rows.slice(first, last - first)), self.nodes[first:last]

    def trim(self, begin: int) -> None:
        first = int(np.searchsorted(self.nodes, begin))
        if 2 * first >= len(self.nodes):
            self.rows, self.nodes = self.rows.slice(first).combine_chunks(), self.nodes[first:]


class SliceTree:
    def __init__(self, store: SliceStore, longest: int) -> None:
        self.store = store
        self._levels = [_Level(store) for _ in range(max(1, longest.bit_length()))]
        self._end = 0

    @property
    def rows(self) -> int:
        """The number of rows of all slices."""
        return len(self._levels[0].nodes)

    @property
    def nbytes(self) -> int:
        """The memory that it takes; of mapped rows nothing."""
        return sum(own_bytes(level.rows) + level.nodes.nbytes for level in self._levels)

    @property
    def most_keys(self) -> int:
        """An upper bound of the keys of a window."""
        return self.rows

    @property
    def key_bytes(self) -> int:
        """The size of a key on average."""
        keys = self._levels[0].rows.select(self.store.key_names)
        return int(keys.nbytes) // max(1, self.rows) if self.store.keys else 0

    def extend(self, rows: pa.RecordBatch, numbers: I64, end: int) -> None:
        """As Matrix.extend."""
        before, self._end = self._end, end
        self._levels[0].append(rows.select(self.store.schema.names), numbers)
        for at, level in enumerate(self._levels[1:], 1):
            begin, finish = before >> at, end >> at  # nodes that have become complete
            below, nodes = self._levels[at - 1].between(2 * begin, 2 * finish)
            if len(nodes):
                level.append(*combined_rows(self.store, below, nodes >> 1))

    def trim(self, begin: int) -> None:
        for at, level in enumerate(self._levels):
            level.trim(begin >> at)

    def read(
        self, parts: Sequence[Accumulator], present: Accumulator, begins: I64, ends: I64
    ) -> tuple[pa.RecordBatch, I64]:
        """As Matrix.read."""
        wanted = list(dict.fromkeys((*parts, present, *(part.counted for part in parts))))
        columns = [*self.store.key_names, *(name for part in wanted for name in self.store.columns_of(part))]
        pieces, windows = [], []
        for level, (nodes, owners) in enumerate(_nodes(begins, ends, len(self._levels))):
            held = self._levels[level]
            first = np.searchsorted(held.nodes, nodes)
            lengths = np.searchsorted(held.nodes, nodes + 1) - first
            if lengths.any():
                chosen = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
                pieces.append(held.rows.select(columns).take(pa.array(chosen)))
                windows.append(np.repeat(owners, lengths))
        if not pieces:
            return _one_batch(self.store.schema.empty_table().select(columns)), np.empty(0, np.int64)
        made, window = combined_rows(self.store, _one_batch(pa.concat_tables(pieces)), np.concatenate(windows), wanted)
        counted = fixed_width(made.column(self.store.columns_of(present)[0]), np.int64) > 0
        if not counted.all():
            made, window = made.filter(pa.array(counted)), window[counted]
        return made, window


def _nodes(begins: I64, ends: I64, levels: int) -> list[tuple[I64, I64]]:
    """For each level the nodes that the windows are made of, and the window of each."""
    found = []
    windows = np.arange(len(begins))
    begin, end = begins.copy(), ends.copy()
    for level in range(levels):
        nodes, owners = [], []
        if level == levels - 1:
            lengths = np.maximum(end - begin, 0)
            nodes.append(np.repeat(begin - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum()))
            owners.append(np.repeat(windows, lengths))
        else:
            left = (begin < end) & (begin & 1 == 1)
            nodes.append(begin[left])
            owners.append(windows[left])
            begin = (begin + 1) >> 1
            right = (end & 1 == 1) & (end >> 1 >= begin)
            nodes.append(end[right] - 1)
            owners.append(windows[right])
            end = end >> 1
        found.append((np.concatenate(nodes), np.concatenate(owners)))
    return found


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return (
        batches[0]
        if batches
        else pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
    )
