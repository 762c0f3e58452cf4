"""Windows in pieces of their keys, where all keys of a window would take too much memory.

A piece has the keys whose hash, modulo the number of pieces, is its number; it reads the rows of these keys only, from
every bucket. Which columns of a store are hashed follows from the query, so that rows which belong together are in one
piece: rows with the same key; distinct values of one key; members of a factorized join with the same join key. Members
that are joined by other keys are read whole in each piece, and the messages of pieces are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.answers import (
    Caches,
    CombinedPartials,
    DueQuery,
    WindowAnswer,
    Windows,
    answers_of,
    relations,
)
from watersmeet.aggregate.factorized import JoinMessages, with_empty_windows
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.slice_cache import RowsOf
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.expression import ColumnRef
from watersmeet.model.forms import FactorizedAggregates, SliceAggregates
from watersmeet.model.predicate import KeyPart
from watersmeet.store.bucket import Bucket
from watersmeet.store.placement import Placement

INTO = 4  # a piece that is too large is divided into so many
MOST = 1 << 8  # pieces; if one of these is too large, its query is suspended
Division = Mapping[SliceStore, tuple[str, ...]]  # by store, the columns that are hashed; others are read whole


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
        key = tuple(KeyPart(ColumnRef(name, kind), kind) for name, kind in _types(store, columns))
        # Rows of one partition have hashes with one remainder, so pieces are told by the quotient.
        placement = Placement.by_all(key, store.partitions * self.count)

        def chosen(bucket: Bucket) -> np.ndarray:
            found: np.ndarray = placement.of(bucket) // store.partitions == self.number
            return found

        return chosen


def _types(store: SliceStore, columns: tuple[str, ...]) -> list[tuple[str, str]]:
    types = dict(zip(store.key_names, store.key_types, strict=True))
    return [(name, types[name]) for name in columns]


def division(due: DueQuery) -> Division:
    """How the stores of a query are divided; nothing where they cannot be."""
    form = due.query.form
    if isinstance(form, FactorizedAggregates):
        return _by_join_key(form, due.reads[: len(form.members)])
    keys = due.reads[0].store.key_names
    columns = keys[: len(form.keys)] if isinstance(form, SliceAggregates) else keys
    return {reading.store: columns for reading in due.reads} if columns else {}


def _by_join_key(form: FactorizedAggregates, reads: Sequence[SliceRead]) -> Division:
    """The members that have the same join key, of the key that most members have."""
    candidates = [_from_edge(form, reads, child) for child, member in enumerate(form.members) if member.parent_join]
    return max(candidates, key=len, default={})


def _from_edge(form: FactorizedAggregates, reads: Sequence[SliceRead], first: int) -> Division:
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
    kinds = {tuple(kind for _, kind in _types(store, columns)) for store, columns in divided.items()}
    return divided if len(kinds) == 1 else {}


def answers_in_pieces(due: Sequence[DueQuery], pieces: Callable[[], Iterable[Caches]]) -> list[WindowAnswer]:
    """The results of queries that need all keys of a window at once, from all pieces; queries that read the same."""
    first = due[0]
    if isinstance(first.query.form, FactorizedAggregates):
        return answers_of(_factorized(first.query.form, due, pieces()), due)
    found = [relation for caches in pieces() for relation in relations(due, caches)]
    return answers_of([_united(found)] if found else [], due)


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


def _factorized(
    form: FactorizedAggregates, due: Sequence[DueQuery], pieces: Iterable[Caches]
) -> list[CombinedPartials]:
    reads = due[0].reads
    members, present = reads[: len(form.members)], reads[len(form.members) :]
    messages = JoinMessages(form, members)
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
        rows, chosen = with_empty_windows(form, rows, chosen, len(windows.starts))
    return [windows.relation(rows, chosen, list(range(len(due))))]
