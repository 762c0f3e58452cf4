"""Windows have so little memory, though a test has few rows, that they are made in pieces of their keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

import pytest

from watersmeet.aggregate import pieces
from watersmeet.aggregate.pieces import KeyPiece
from watersmeet.aggregate.slice_cache import RowsOf
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.windows.slices import intake, task

FAILING = 16  # pieces; in more, there is always enough memory


@contextlib.contextmanager
def little_memory(share: int, failing: Random | None = None) -> Iterator[set[int]]:
    """`share`: the bytes that windows may take. `failing`: now and then, a piece finds no memory and is divided again,
    where that is possible.
    Gives the numbers of pieces that there were."""
    rows_of, seen = KeyPiece.rows_of, set[int]()

    def noting(piece: KeyPiece, store: SliceStore, columns: tuple[str, ...]) -> RowsOf | None:
        seen.add(piece.count)
        if failing is not None and columns and piece.count <= FAILING and failing.random() < 0.2:
            raise MemoryError
        return rows_of(piece, store, columns)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(task, "share_of", lambda limits: share)
        patched.setattr(intake, "share_of", lambda limits: share)
        patched.setattr(pieces.KeyPiece, "rows_of", noting)
        yield seen
