"""Results of a join that several queries take, each perhaps others of them and other columns: what they are
made of is read once, because the queries of a group differ in what they add up, and not in where it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.plan.ruleset import Emit
from watersmeet.runtime.emit.assemble import Assembly, Combinations, concatenate
from watersmeet.runtime.probe.partial_results import PartialResults, ProbePath
from watersmeet.store.filters import Words, full_words
from watersmeet.store.gathering import taken
from watersmeet.store.kernels import I64

_At = tuple[ProbePath, Emit]
_Column = tuple[int, str]  # a member, and a column of it


class SharedResults:
    """References that wait until they are worth reading their columns: `receive` gets them with their query sets."""

    def __init__(self, receive: Callable[[ProbePath, Emit, PartialResults, Words], None], rows: int) -> None:
        """`rows`: so many are received at once."""
        self._receive, self._most = receive, rows
        self._found: dict[_At, list[tuple[PartialResults, Words]]] = {}
        self._rows: Counter[_At] = Counter()

    def add(self, path: ProbePath, end: Emit, partial: PartialResults, sets: Words | None) -> None:
        """`sets`: which queries want each; None: all."""
        if sets is None:
            sets = full_words(end.queries, len(partial))
        wanted = np.flatnonzero(sets)
        if len(wanted) < len(sets):
            partial, sets = partial.take(wanted), sets[wanted]
        self._found.setdefault((path, end), []).append((partial, sets))
        self._rows[path, end] += len(partial)
        if self._rows[path, end] >= self._most:
            self._flush((path, end))

    def end(self) -> None:
        for at in sorted(self._found, key=lambda at: at[1].queries):
            self._flush(at)

    def _flush(self, at: _At) -> None:
        del self._rows[at]
        partials, sets = zip(*self._found.pop(at), strict=True)
        if sum(map(len, partials)):
            self._receive(*at, concatenate(list(partials)), np.concatenate(sets))


def takers(queries: Sequence[str], bits: Sequence[int], sets: Words) -> list[tuple[list[str], np.ndarray | None]]:
    """Of queries with equal outputs, by their bits: those that want the same results together, and which; None: all."""
    found: list[tuple[list[str], np.ndarray]] = []
    for bit in bits:
        wanted = np.flatnonzero((sets & sets.dtype.type(1 << bit)) != 0)
        if not found or not np.array_equal(wanted, found[-1][1]):
            found.append(([], wanted))
        found[-1][0].append(queries[bit])
    return [(some, None if len(wanted) == len(sets) else wanted) for some, wanted in found]


class Shared:
    """Combinations of which columns and times are read once for all parts."""

    def __init__(self, whole: Assembly) -> None:
        self._whole = whole
        self._columns: dict[_Column, pa.ChunkedArray] = {}

    def some(self, rows: np.ndarray | None) -> Combinations:
        """Some of them; None: all."""
        return _Some(self, rows)

    def __len__(self) -> int:
        return len(self._whole)

    @property
    def latest(self) -> I64:
        return self._whole.latest

    @cached_property
    def earliest(self) -> I64:
        return self._whole.earliest()

    def columns(self, wanted: dict[int, list[str]]) -> dict[_Column, pa.ChunkedArray]:
        new = {
            member: [name for name in names if (member, name) not in self._columns] for member, names in wanted.items()
        }
        if missing := {member: names for member, names in new.items() if names}:
            self._columns |= self._whole.columns(missing)
        return {(member, name): self._columns[member, name] for member, names in wanted.items() for name in names}


class _Some:
    def __init__(self, shared: Shared, rows: np.ndarray | None) -> None:
        self._shared, self._rows = shared, rows

    def __len__(self) -> int:
        return len(self._shared) if self._rows is None else len(self._rows)

    @property
    def latest(self) -> I64:
        return self._times(self._shared.latest)

    def earliest(self) -> I64:
        return self._times(self._shared.earliest)

    def _times(self, times: I64) -> I64:
        return times if self._rows is None else taken(times, self._rows)

    def columns(self, wanted: dict[int, list[str]]) -> dict[_Column, pa.ChunkedArray]:
        found = self._shared.columns(wanted)
        if self._rows is None:
            return found
        rows = pa.array(self._rows)
        return {column: values.take(rows) for column, values in found.items()}
