"""Windows in pieces of their keys, where all keys of a window would take too much memory.

A piece has the keys whose hash, modulo the number of pieces, is its number; it reads the rows of these keys only, from
every bucket. Which columns of a store are hashed follows from the query, so that rows which belong together are in one
piece: rows with the same key; distinct values of one key; members of a factorized join with the same join key. Members
that are joined by other keys are read whole in each piece, and the messages of pieces are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.aggregate.answers import WindowAnswer, answers_of
from watersmeet.aggregate.due import Caches, DueQuery
from watersmeet.aggregate.readers import Division, ReadTogether, reader_of
from watersmeet.aggregate.slice_cache import RowsOf
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.store.bucket import Bucket

INTO = 4  # a piece that is too large is divided into so many
MOST = 1 << 8  # pieces; if one of these is too large, its query is suspended


@dataclass(frozen=True)
class KeyPiece:
    number: int = 0
    count: int = 1

    @classmethod
    def all_of(cls, count: int) -> list[KeyPiece]:
        return [cls(number, count) for number in range(count)]

    def divided(self) -> list[KeyPiece]:
        return [KeyPiece(self.number + at * self.count, self.count * INTO) for at in range(INTO)]

    def rows_of(self, store: SliceStore, columns: tuple[str, ...]) -> RowsOf | None:
        """Which rows of a bucket of a store are in the piece; None: all of them."""
        if self.count == 1 or not columns:
            return None
        # Rows of one partition have hashes with one remainder, so pieces are told by the quotient.
        placement = store.placed_by(columns, store.partitions * self.count)

        def chosen(bucket: Bucket) -> np.ndarray:
            found: np.ndarray = placement.of(bucket) // store.partitions == self.number
            return found

        return chosen


def division(due: DueQuery) -> Division:
    """How the stores of a query are divided; nothing where they cannot be."""
    return reader_of(due).division(due.query.form, due.reads)


def needs_all_pieces(due: DueQuery) -> bool:
    """Whether what pieces have is put together before the last step; otherwise their results are those of the query."""
    return reader_of(due).needs_all_pieces(due.query.form)


def answers_in_pieces(due: Sequence[DueQuery], pieces: Iterable[Caches]) -> list[WindowAnswer]:
    """The results of queries that need all pieces; queries that read the same."""
    alike = ReadTogether.of(due[0])
    return answers_of(alike.reader.put_together(alike.shared, alike.reads, due, pieces), due)
