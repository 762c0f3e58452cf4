"""Windows of queries whose slices are not kept in memory: they are made in pieces of their keys.

Results of a piece are results of the query, unless its last step needs all keys of a window (DISTINCT, LIMIT) or it is
a factorized join: then what the pieces have is put together before the last step. A piece that does not fit into
memory is divided again; what was made before is not made twice. If even a small piece does not fit, or there is no key
to divide by, the query is suspended.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from watersmeet.aggregate.answers import WindowAnswer, answers
from watersmeet.aggregate.due import Caches, DueQuery
from watersmeet.aggregate.pieces import INTO, MOST, KeyPiece, answers_in_pieces, division, needs_all_pieces
from watersmeet.aggregate.readers import ReadTogether
from watersmeet.aggregate.rounds import rounds
from watersmeet.aggregate.slice_cache import RowsOf, SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.errors import RunError, StateError
from watersmeet.runtime.emit.confine import Confinement
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.failure import is_full

Make = Callable[[SliceStore, int, RowsOf | None], SliceCache]  # with rows of slices from a time on, or some of them
NO_MEMORY = "a task has no memory for its windows, also in pieces of their keys (option task_memory): raise the option"


@dataclass(frozen=True)
class InPieces:
    make: Make
    done: Callable[[SliceCache], None]  # a cache that was made is not used any more
    begin: Callable[
        [Sequence[DueQuery], Caches | None], list[DueQuery]
    ]  # before a round: those that are still answered
    take: Callable[[DueQuery, WindowAnswer], None]
    release: Callable[[], None]  # whatever else is kept in memory
    confined: Confinement
    home: Path
    most: int  # bytes of a round

    def answer(self, due: Sequence[DueQuery], count: int) -> None:
        """Answer queries, each in at least so many pieces."""
        apart = [each for each in due if count > 1 and division(each) and needs_all_pieces(each)]
        for some in _alike(apart, ReadTogether.of):
            self._together(some, count)
        for some in _alike([each for each in due if each not in apart], lambda each: each.stores):
            for piece in KeyPiece.all_of(count if division(some[0]) else 1):
                self._piece(some, piece)

    def _piece(self, some: list[DueQuery], piece: KeyPiece) -> None:
        """One piece of the windows of queries; their results are complete with those of the others."""
        left = {each.query.name: each for each in some if each.query.name not in self.confined}
        try:
            for caches in self._caches(list(left.values()), [piece] if left else []):
                for found in rounds(list(left.values()), caches, self.most):
                    usable = self.begin(found, caches)
                    for each, answer in zip(usable, answers(usable, caches), strict=True):
                        self.take(each, answer)
                    left |= {each.query.name: _after(left[each.query.name], each) for each in found}
        except (StateError, Stopped):
            raise
        except Exception as problem:
            again = partial(self._piece, piece=piece)
            self._again(list(left.values()), piece.count, problem, again, partial(self._divided, piece=piece))

    def _divided(self, some: list[DueQuery], piece: KeyPiece) -> None:
        if needs_all_pieces(some[0]):
            self._together(some, piece.count * INTO)
            return
        for part in piece.divided():
            self._piece(some, part)

    def _together(self, some: list[DueQuery], count: int) -> None:
        """The windows of queries that read the same, from all pieces."""
        left = {each.query.name: each for each in some if each.query.name not in self.confined}
        try:
            for found in self._runs(list(left.values()), count) if left else ():
                usable = self.begin(found, None)
                pieces = self._caches(usable, KeyPiece.all_of(count))
                for each, answer in zip(usable, answers_in_pieces(usable, pieces) if usable else (), strict=True):
                    self.take(each, answer)
                left |= {each.query.name: _after(left[each.query.name], each) for each in found}
        except (StateError, Stopped):
            raise
        except Exception as problem:
            again = partial(self._together, count=count)
            self._again(list(left.values()), count, problem, again, partial(self._together, count=count * INTO))

    def _again(
        self,
        left: list[DueQuery],
        count: int,
        problem: Exception,
        again: Callable[[list[DueQuery]], None],
        smaller: Callable[[list[DueQuery]], None],
    ) -> None:
        """What has failed is tried for each query by itself; where memory was short, in smaller pieces."""
        if is_full(problem):
            raise problem  # results were taken that cannot be written: made again, others would be there twice
        traceback.clear_frames(problem.__traceback__)  # which may hold what there was no memory for
        self.release()
        for each in left:
            with self.confined.of(each.query.name, self.home):
                if isinstance(problem, MemoryError) and division(each) and count * INTO <= MOST:
                    smaller([each])
                elif len(left) > 1:
                    again([each])
                elif isinstance(problem, MemoryError):
                    raise RunError(NO_MEMORY) from problem
                else:
                    raise problem

    def _runs(self, due: list[DueQuery], count: int) -> Iterator[list[DueQuery]]:
        """Windows of which all keys together are a round, as far as the first piece tells."""
        for caches in self._caches(due, [KeyPiece(0, count)]):
            found = list(rounds(due, caches, self.most // count))
        if len(found) == 1:
            yield due
            return
        for each in due:
            opened = each.span.opened
            ends = [one.span.until for some in found for one in some if one.query is each.query]
            for until in (*ends[:-1], each.span.until):  # windows that only other pieces have are between these
                yield [replace(each, span=replace(each.span, opened=opened, until=until))]
                opened = until

    def _caches(self, due: Sequence[DueQuery], pieces: Iterable[KeyPiece]) -> Iterator[Caches]:
        """For each piece the slices that these windows need; those of a piece are gone when the next one is made."""
        divided = division(due[0]) if due else {}
        begin = min((each.span.opened for each in due), default=0)
        for piece in pieces:
            made: dict[SliceStore, SliceCache] = {}

            def of(store: SliceStore, piece: KeyPiece = piece, made: dict[SliceStore, SliceCache] = made) -> SliceCache:
                if store not in made:
                    made[store] = self.make(store, begin, piece.rows_of(store, divided.get(store, ())))
                return made[store]

            try:
                yield of
            finally:
                for cache in made.values():
                    self.done(cache)
                made.clear()


def _after(whole: DueQuery, done: DueQuery) -> DueQuery:
    """What is left of the windows of a query."""
    return replace(whole, span=replace(whole.span, opened=done.span.until))


def _alike(due: Iterable[DueQuery], key: Callable[[DueQuery], Hashable]) -> list[list[DueQuery]]:
    found: dict[Hashable, list[DueQuery]] = {}
    for each in due:
        found.setdefault(key(each), []).append(each)
    return list(found.values())
