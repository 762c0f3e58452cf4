"""How the windows of each form of aggregates are read from slices; READERS has one reader for each form.

A reader also says how the keys of windows are divided, so that they can be made in pieces (pieces.py), and how what the
pieces have is put together where the last step needs all keys of a window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulator import accumulators_of
from watersmeet.aggregate.distinct import distinct_columns
from watersmeet.aggregate.due import Caches, CombinedPartials, DueQuery, Windows
from watersmeet.aggregate.factorized import JoinMessages, joined, with_empty_windows
from watersmeet.aggregate.last_step import passing_having
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.slice_cache import SliceCache
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.aggregate.sparse import Keep, PartsOf
from watersmeet.aggregate.values import partial_columns
from watersmeet.model.forms import (
    FactorizedAggregates,
    FinalStage,
    JoinAggregates,
    PairAggregates,
    SliceAggregates,
)
from watersmeet.store.codes import fixed_width
from watersmeet.store.guard import ExpressionError
from watersmeet.store.kernels import I64

_FEW_KEYS = 1 << 12  # of a window, which are made before HAVING is decided
Reads = tuple[SliceRead, ...]
Division = Mapping[SliceStore, tuple[str, ...]]  # by store, the columns that are hashed; others are read whole
# The windows, the combined partials, the window of each, and how many keys HAVING has left out, by number of query.
Found = tuple[Windows, pa.RecordBatch, I64, Mapping[int, int]]


class WindowReader(Protocol):
    """What is done for one form of aggregates; `form` is one of them."""

    def needs_all_pieces(self, form: Any) -> bool:
        """Whether what pieces have is put together before the last step."""

    def division(self, form: Any, reads: Reads) -> Division:
        """How the stores are divided into pieces; nothing where they cannot be."""

    def shared(self, form: Any) -> Any:
        """What of the form `read` has to know. Queries that agree in it and in what they read are read together."""

    def read(self, shared: Any, reads: Reads, due: Sequence[DueQuery], caches: Caches) -> Found | None:
        """The combined partials of the due windows; None if there are none."""

    def put_together(
        self, shared: Any, reads: Reads, due: Sequence[DueQuery], pieces: Iterable[Caches]
    ) -> list[CombinedPartials]:
        """The combined partials of the due windows, from all pieces."""


class _OfSlices:
    """Partial aggregates of slices are combined by key."""

    def needs_all_pieces(self, form: SliceAggregates | JoinAggregates) -> bool:
        return form.final.needs_all_keys or not form.keys

    def division(self, form: SliceAggregates | JoinAggregates, reads: Reads) -> Division:
        """Rows of one key together; without keys, those of one distinct value, where values are only counted: sums of
        pieces would be rounded before they are added."""
        columns = reads[0].store.key_names[: len(form.keys)]
        if columns:
            return {reading.store: columns for reading in reads}
        if any(partial.distinct and partial.function != "count" for partial in form.partials):
            return {}
        return {reading.store: reading.store.key_names for reading in reads[1:]}

    def shared(self, form: SliceAggregates | JoinAggregates) -> SliceAggregates | JoinAggregates | None:
        return replace(form, final=FinalStage(), outputs=()) if form.distinct else None

    def read(
        self, shared: SliceAggregates | None, reads: Reads, due: Sequence[DueQuery], caches: Caches
    ) -> Found | None:
        reading, *others = reads
        windows = Windows.of([each.span for each in due], caches(reading.store))
        if not len(windows.starts):
            return None
        left_out = Counter[int]()
        rows, chosen = windows.read(reading, caches, _having(due, windows, caches(reading.store), left_out))
        plain: Sequence[int] = range(len(reading.partials))
        if shared is not None:
            plain = [at for at, partial in enumerate(shared.partials) if not partial.distinct]
        names = list(reading.store.key_names)
        columns = [rows.column(name) for name in names]
        for at, partial in zip(plain, reading.partials, strict=True):
            names += [name for name, _ in partial.columns(at)]
            columns += partial_columns(reading.store, partial, rows)
        if shared is not None:
            of_values = [(each, windows.read(each, caches)) for each in others]
            for at, column in distinct_columns(shared, (rows, chosen), of_values):
                names.append(f"p{at}")
                columns.append(column)
        return windows, pa.RecordBatch.from_arrays(columns, names=names), chosen, left_out

    def put_together(
        self, shared: SliceAggregates | None, reads: Reads, due: Sequence[DueQuery], pieces: Iterable[Caches]
    ) -> list[CombinedPartials]:
        found = [relation for caches in pieces for relation in relations(due, caches)]
        if shared is not None and not shared.keys:
            return [_with_added_counts(found, shared)] if found else []
        return [_united(found)] if found else []


class _OfMessages:
    """Partial aggregates of the members of a join are multiplied by join key, and added up."""

    def needs_all_pieces(self, form: FactorizedAggregates) -> bool:
        return True

    def division(self, form: FactorizedAggregates, reads: Reads) -> Division:
        """The members that have the same join key, of the key that most members have."""
        members = reads[: len(form.members)]
        candidates = [_from_edge(form, members, at) for at, member in enumerate(form.members) if member.parent_join]
        return max(candidates, key=len, default={})

    def shared(self, form: FactorizedAggregates) -> FactorizedAggregates:
        return replace(form, final=FinalStage(), outputs=())

    def read(self, shared: FactorizedAggregates, reads: Reads, due: Sequence[DueQuery], caches: Caches) -> Found | None:
        members, present = reads[: len(shared.members)], reads[len(shared.members) :]
        windows = Windows.joined([each.span for each in due], members, present, caches)
        if not len(windows.starts):
            return None
        rows, chosen = joined(shared, members, [windows.read(reading, caches) for reading in members])
        if present:
            rows, chosen = with_empty_windows(shared, rows, chosen, len(windows.starts))
        return windows, rows, chosen, {}

    def put_together(
        self, shared: FactorizedAggregates, reads: Reads, due: Sequence[DueQuery], pieces: Iterable[Caches]
    ) -> list[CombinedPartials]:
        members, present = reads[: len(shared.members)], reads[len(shared.members) :]
        messages = JoinMessages(shared, members)
        seen: list[Windows] = []
        for caches in pieces:
            windows = Windows.joined([each.span for each in due], members, present, caches)
            if len(windows.starts):
                messages.add([windows.read(reading, caches) for reading in members])
                seen.append(windows)
        if not seen:
            return []
        windows, numbers = Windows.united(seen)
        rows, chosen = messages.result(numbers)
        if present:
            rows, chosen = with_empty_windows(shared, rows, chosen, len(windows.starts))
        return [windows.relation(rows, chosen, list(range(len(due))))]


READERS: Mapping[str, WindowReader] = {
    SliceAggregates.kind: _OfSlices(),
    FactorizedAggregates.kind: _OfMessages(),
    JoinAggregates.kind: _OfSlices(),
    PairAggregates.kind: _OfSlices(),
}


def reader_of(due: DueQuery) -> WindowReader:
    return READERS[due.query.form.kind]


@dataclass(frozen=True)
class ReadTogether:
    """Equal for queries that have the same combined partials."""

    reader: WindowReader
    shared: Any
    reads: Reads

    @classmethod
    def of(cls, due: DueQuery) -> ReadTogether:
        reader = reader_of(due)
        return cls(reader, reader.shared(due.query.form), due.reads)


def relations(due: Sequence[DueQuery], caches: Caches) -> Iterator[CombinedPartials]:
    """The combined partials of all due windows, one relation for all queries that read the same."""
    alike: dict[ReadTogether, list[int]] = {}
    for number, each in enumerate(due):
        alike.setdefault(ReadTogether.of(each), []).append(number)
    for one, numbers in alike.items():
        found = one.reader.read(one.shared, one.reads, [due[number] for number in numbers], caches)
        if found is not None:
            windows, rows, chosen, left_out = found
            relation = windows.relation(rows, chosen, numbers)
            yield replace(relation, left_out={numbers[at]: keys for at, keys in left_out.items()})


def _having(due: Sequence[DueQuery], windows: Windows, cache: SliceCache, left_out: Counter[int]) -> Keep | None:
    """Which keys of a window pass HAVING, decided before they are made; the last step decides it again. `left_out`
    counts the others, by query."""
    if all(each.pushed_having is None for each in due):
        return None

    def keep(window: int, parts: PartsOf) -> np.ndarray | None:
        one = due[int(windows.spans[window])]
        having = one.pushed_having
        if having is None:
            return None
        relation = _partials(one.reads[0], {one.partial_of[column.label] for column in having.columns}, parts)
        if relation.num_rows < _FEW_KEYS:
            return None
        try:
            kept, failures = passing_having(relation, having)
        except ExpressionError:
            return None
        if failures:
            return None
        left_out[int(windows.spans[window])] += len(kept) - int(kept.sum())
        cache.note_kept(having, int(kept.sum()), len(kept))
        return kept

    return keep


def _partials(reading: SliceRead, numbers: Iterable[int], parts: PartsOf) -> pa.RecordBatch:
    """Some partials of a read, as expressions name them."""
    chosen = [reading.partials[at] for at in numbers]
    rows = parts(list(dict.fromkeys(part for partial in chosen for part in accumulators_of(partial))))
    names: list[str] = []
    columns: list[pa.Array] = []
    for at in sorted(numbers):
        partial = reading.partials[at]
        names += [name for name, _ in partial.columns(at)]
        columns += partial_columns(reading.store, partial, rows)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _from_edge(form: FactorizedAggregates, reads: Reads, first: int) -> Division:
    """The members that are joined by the key of one of them with its parent, and by nothing else."""
    member = form.members[first]
    assert member.parent is not None
    found = {member.parent: tuple(part.expression for part in member.parent_join)}
    for at, each in enumerate(form.members):  # parents come before their children
        above = tuple(part.expression for part in each.parent_join)
        if each.parent is not None and found.get(each.parent) == above:
            found[at] = tuple(part.expression for part in each.join)
    divided: dict[SliceStore, tuple[str, ...]] = {}
    for at, key in found.items():
        store = reads[at].store
        columns = tuple(f"k{store.keys.index(each)}" for each in key)
        if divided.setdefault(store, columns) != columns:
            return {}  # both sides of a join of a stream with itself read one store
    kinds = {tuple(kind for _, kind in store.types_of(columns)) for store, columns in divided.items()}
    return divided if len(kinds) == 1 else {}


def _with_added_counts(found: Sequence[CombinedPartials], form: SliceAggregates) -> CombinedPartials:
    """The one row of each window, with the distinct values of all pieces; everything else is the same in each piece."""
    rows = found[0].rows
    for at, partial in enumerate(form.partials):
        if partial.distinct:
            counts = np.sum([fixed_width(each.rows.column(f"p{at}"), np.int64) for each in found], axis=0)
            rows = rows.set_column(rows.schema.get_field_index(f"p{at}"), f"p{at}", pa.array(counts, pa.int64()))
    return replace(found[0], rows=rows)


def _united(found: Sequence[CombinedPartials]) -> CombinedPartials:
    """Relations of pieces as one, in the order of queries and windows."""
    rows = pa.Table.from_batches([each.rows for each in found]).combine_chunks().to_batches()
    queries, windows = (np.concatenate([getattr(each, name) for each in found]) for name in ("queries", "windows"))
    order = np.lexsort((windows, queries))
    left_out: dict[int, int] = {}
    for each in found:
        for query, keys in each.left_out.items():
            left_out[query] = left_out.get(query, 0) + keys
    batch = rows[0].take(pa.array(order)) if rows else found[0].rows
    return CombinedPartials(batch, queries[order], windows[order], left_out)
