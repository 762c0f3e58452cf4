"""Numbers for keys, which stay the same while rows come and go: a hash table of the codes of all keys so far.

Codes of fixed types are the values (`store/codes.py`). Strings, binaries and long decimals have hashes for codes, so
that two keys may have the same codes: the keys that arrive are compared with those that have their numbers, and one
that is another gets a number of its own, by a dictionary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.kernels import fill_slots, number_keys
from watersmeet.model.types import has_code, type_of_arrow
from watersmeet.store.codes import encode
from watersmeet.store.kernels import I64

_SMALLEST = 1 << 12  # slots
_MOST_CHUNKS = 16
_BITS = 63  # of a word of NULLs


class KeyTable:
    def __init__(self, schema: pa.Schema) -> None:
        """`schema` has the columns of the key."""
        self._hashed = [at for at, field in enumerate(schema) if not has_code(field.type)]
        self._values = schema.empty_table()
        self._codes = np.empty((_rows_of_codes(len(schema)), 0), np.int64)
        self._slots = np.full(_SMALLEST, -1, np.int32)
        self._count = 0
        self._collided: dict[tuple[Any, ...], int] = {}  # keys whose codes are those of another one, and their numbers

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes) + self._codes.nbytes + self._slots.nbytes

    def numbers(self, keys: pa.RecordBatch) -> np.ndarray:
        """The number of the key of each row; new keys get new numbers."""
        codes = _codes(keys)
        self._reserve(self._count + keys.num_rows)
        found, new = number_keys(codes, self._slots, self._codes, self._count)
        self._add(keys, new)
        if self._hashed:
            different = np.zeros(keys.num_rows, bool)
            for at in self._hashed:
                same = pc.fill_null(pc.equal(keys.column(at), self.column(at, found)), True)  # NULLs have codes
                different |= ~np.asarray(same)
            for row in np.flatnonzero(different).tolist():
                found[row] = self._number_of_collided(keys, codes, row)
        return found

    def _add(self, keys: pa.RecordBatch, rows: I64) -> None:
        self._count += len(rows)
        if len(rows):
            self._values = pa.concat_tables([self._values, pa.Table.from_batches([keys]).take(pa.array(rows))])
            if self._values.column(0).num_chunks > _MOST_CHUNKS:
                self._values = self._values.combine_chunks()

    def _number_of_collided(self, keys: pa.RecordBatch, codes: np.ndarray, row: int) -> int:
        key = (*codes[:, row].tolist(), *(keys.column(at)[row].as_py() for at in self._hashed))
        if key not in self._collided:
            self._reserve(self._count + 1)
            self._codes[:, self._count] = codes[:, row]
            self._collided[key] = self._count
            self._add(keys, np.array([row]))
        return self._collided[key]

    def column(self, at: int, numbers: np.ndarray) -> pa.Array:
        """The values of one column of keys, by their numbers."""
        taken = self._values.column(at).take(pa.array(numbers))
        return taken.chunk(0) if taken.num_chunks == 1 else taken.combine_chunks()

    def keep(self, chosen: I64) -> None:
        """Forget all keys but these, which get the numbers of their places in `chosen`."""
        self._values = self._values.take(pa.array(chosen)).combine_chunks()
        self._codes = np.ascontiguousarray(self._codes[:, chosen])
        self._count = len(chosen)
        renumbered = dict(zip(chosen.tolist(), range(len(chosen)), strict=True)) if self._collided else {}
        self._collided = {key: renumbered[at] for key, at in self._collided.items() if at in renumbered}
        self._slots = np.full(_slots_for(self._count), -1, np.int32)
        fill_slots(self._codes, self._count, self._slots)

    def _reserve(self, most: int) -> None:
        if most > self._codes.shape[1]:
            larger = np.empty((len(self._codes), max(most, 2 * self._count)), np.int64)
            larger[:, : self._count] = self._codes[:, : self._count]
            self._codes = larger
        if _slots_for(most) > len(self._slots):
            self._slots = np.full(_slots_for(most), -1, np.int32)
            fill_slots(self._codes, self._count, self._slots)


def _slots_for(keys: int) -> int:
    return max(_SMALLEST, 1 << (2 * keys).bit_length())


def _rows_of_codes(columns: int) -> int:
    return columns + 1 + columns // _BITS


def _codes(keys: pa.RecordBatch) -> np.ndarray:
    """The codes of each column, and behind them words that tell which columns are NULL."""
    found = np.zeros((_rows_of_codes(keys.num_columns), keys.num_rows), np.int64)
    for at, column in enumerate(keys.columns):
        codes = encode(column, type_of_arrow(column.type))
        found[at] = codes.values
        if len(codes.valid):
            null = codes.valid == 0
            found[at, null] = 0
            found[keys.num_columns + at // _BITS, null] |= 1 << at % _BITS
    return found
