"""Slices are read as if they had many keys, though a test has few: in lists instead of matrices, with HAVING first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from watersmeet.aggregate import key_table, readers, slice_log, sparse, structure

FEW, SOME, MANY = "few", "some", "many"


@contextlib.contextmanager
def as_many_keys(keys: str = MANY, few: int = 2) -> Iterator[None]:
    """`keys`: few as they are, many, or some, so that the way in which slices are read changes from tick to tick.

    `few`: so many keys and rows are not looked at for being unused, or for being apart."""
    with pytest.MonkeyPatch.context() as patched:
        if keys != FEW:
            patched.setattr(structure, *(("MATRIX_BYTES", 0) if keys == MANY else ("SMALL", 4)))
            patched.setattr(readers, "_FEW_KEYS", 0)
            patched.setattr(sparse, "_FEW", few)
            patched.setattr(sparse, "_SMALL_CHUNK", 8 * few)
            patched.setattr(slice_log, "_SMALLEST", 4)
            patched.setattr(key_table, "_SMALLEST", 4)
            patched.setattr(key_table, "_MOST_CHUNKS", 3)
        yield
