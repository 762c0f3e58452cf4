"""Due windows in rounds: each has so few bytes of partials that little memory is needed, however many are due.

A round has windows of several queries, or some of the windows of one query; the windows of a query are in consecutive
rounds, in order. Sizes are known before anything of a window is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from watersmeet.aggregate.due import Caches, DueQuery
from watersmeet.aggregate.slice_cache import SliceCache

BYTES = 64 << 20  # of a round, before the last step; a window that has more is a round of its own
_WINDOWS = 1 << 16  # that are looked at together


def rounds(due: Sequence[DueQuery], caches: Caches, most: int = BYTES) -> Iterator[list[DueQuery]]:
    """All due windows that have rows, at most about so many bytes at a time."""
    if (
        sum(cache.bound(each.span) * _row_bytes(each, cache) for each in due for cache in _read_by(each, caches))
        <= most
    ):
        yield list(due)
        return
    some: list[DueQuery] = []
    room = most
    for each in due:
        for piece, size in _pieces(each, list(_read_by(each, caches)), most):
            if some and size > room:
                yield some
                some, room = [], most
            opened = some.pop().span.opened if some and some[-1].query is piece.query else piece.span.opened
            some.append(replace(piece, span=replace(piece.span, opened=opened)))
            room -= size
    if some:
        yield some


def windows_with_rows(due: DueQuery, caches: Caches) -> int:
    """At most how many of the due windows of a query have rows."""
    return max(cache.count(due.span) for cache in _read_by(due, caches))


def _read_by(due: DueQuery, caches: Caches) -> Iterator[SliceCache]:
    return (caches(store) for store in due.stores)


def _row_bytes(due: DueQuery, cache: SliceCache) -> float:
    """The size of a key of a window in the result of a read, on average: what HAVING leaves out is not made."""
    return cache.row_bytes * cache.kept_share(due.pushed_having)


def _pieces(due: DueQuery, read: Sequence[SliceCache], most: int) -> Iterator[tuple[DueQuery, int]]:
    """The windows of a query in runs of about so many bytes, and the bytes of each."""
    span, grid = due.span, due.span.grid
    while True:
        found = [cache.due([span], _WINDOWS)[1] for cache in read]
        more = [int(starts[-1]) for starts in found if len(starts) == _WINDOWS]
        starts = np.unique(np.concatenate(found))
        if more:  # beyond the first of these, some windows may be missing
            starts = starts[starts <= min(more)]
        sizes = np.cumsum(sum(cache.sizes(starts, starts + grid.range) * _row_bytes(due, cache) for cache in read))
        begin = before = 0
        while begin < len(starts):
            end = max(begin + 1, int(np.searchsorted(sizes, before + most, side="right")))
            opened, until = int(starts[begin]), int(starts[end - 1]) + grid.slide
            yield replace(due, span=replace(span, opened=opened, until=until)), int(sizes[end - 1]) - before
            begin, before = end, int(sizes[end - 1])
        if not more:
            return
        span = replace(span, opened=min(more) + grid.slide)
