"""What the windows of a slice store are read from: a matrix, lists, or a tree, and the rule that says which.

Nothing here needs compiled loops: the planner shows what tasks will choose."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

import numpy as np

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.types import has_code

SMALL = 1 << 16  # cells of a matrix that are made for any number of rows
DENSE = 4  # a matrix has at most so many cells for each row of the store, and half of that when it is made
MATRIX_BYTES = 64 << 20  # it takes at most so much memory, and half of that when it is made


class Structure(StrEnum):
    """In words, as explain has it."""

    MATRIX = "a matrix of slices and keys"
    LISTS = "a list for each slice"
    TREE = "a tree of slices"


def structure_for(store: SliceStore, longest: int, rows: int, slices: int, keys: int) -> Structure:
    """For windows of at most `longest` slices, where there are so many slices, keys, and rows of these that are not
    empty."""
    has_codes = all(has_code(kind) for part in store.parts for _, kind in part.columns(0))
    if store.spread:
        return Structure.LISTS
    is_dense = not is_sparse(slices * keys, rows, DENSE // 2)
    if is_dense and has_codes and matrix_bytes(store, longest, slices, keys) <= MATRIX_BYTES // 2:
        return Structure.MATRIX
    return Structure.LISTS if store.keys and has_codes else Structure.TREE


def is_sparse(cells: int, rows: int, most: int | None = None) -> bool:
    """Whether too many cells of a matrix are empty; it has at most so many for each row."""
    return cells > max(SMALL, (DENSE if most is None else most) * rows)


def is_too_large(store: SliceStore, longest: int, slices: int, keys: int) -> bool:
    return matrix_bytes(store, longest, slices, keys) > MATRIX_BYTES


def matrix_bytes(store: SliceStore, longest: int, slices: int, keys: int) -> int:
    """The bytes of a matrix of so many slices and keys."""
    return 8 * slices * keys * (len(prefix_columns(store)) + len(block_columns(store)) * levels_for(longest))


def levels_for(longest: int) -> int:
    """How many levels a table of blocks needs for runs of up to so many slices."""
    return max(1, (max(1, longest) - 1).bit_length()) + 2


@lru_cache(maxsize=1024)
def prefix_columns(store: SliceStore) -> tuple[str, ...]:
    """What can be subtracted."""
    exact = [part for part in store.parts if part.function == "count" or _is_exact_sum(part)]
    return tuple(name for part in exact for name in store.columns_of(part))


@lru_cache(maxsize=1024)
def block_columns(store: SliceStore) -> Mapping[str, type]:
    """All else, with the types of its values."""
    found: dict[str, type] = {}
    for part in store.parts:
        columns = store.columns_of(part)
        if part.function in ("min", "max"):
            found[columns[0]] = np.int64
        elif part.function == "moments":
            found |= dict.fromkeys((*columns, own_count(columns[0])), np.float64)
        elif part.function == "sum" and not _is_exact_sum(part):
            found[columns[0]] = np.float64
    return found


def own_count(column: str) -> str:
    """How many values moments are of."""
    return f"{column} n"


def _is_exact_sum(part: Accumulator) -> bool:
    return part.function == "sum" and part.digits > 0
