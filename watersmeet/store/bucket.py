"""A bucket: the rows of one store that arrived in a range of ticks, in one immutable, memory-mapped file.

Invariants
 1. A bucket file never changes after it was written. Its name is new for every attempt to write it, so a
    late write of a dead process can only make a file that no manifest names (store/bucket_file.py).
 2. The rows stand in columns, as one Arrow record batch; `tau` is their event time in microseconds, never
    NULL. The rows of a bucket belong to one partition of one layout of the store.
 3. Everything else in the file is derived from the rows: an index for a key, the codes of a key, the query sets of
    a block of filters. A part that is missing (a query came after the bucket) is derived when it is first needed.
 4. `BucketInfo` repeats size and checksum, so that a torn or exchanged file is found before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.home.manifest import BucketInfo
from watersmeet.model import HIDDEN, KeyPart
from watersmeet.store.bucket_file import read_file, write_file
from watersmeet.store.codes import EVERY_ROW, Codes, combine, encode
from watersmeet.store.derived import BITS, TAU, Block, Derived, Key
from watersmeet.store.evaluate import evaluate
from watersmeet.store.filters import Words, evaluate_block, fold
from watersmeet.store.kernels import I32, I64, build_index, slot_bits
from watersmeet.store.packed import packed
from watersmeet.store.scan import index_of_few, is_few

_STARTS, _ORDER = "starts ", "order "
FOLDED = "folded "  # begins the name of a section that tells which of several blocks want a row
SORTED = "sorted "  # and of one with the rows in the order of a key
_FORGOTTEN = (BITS, FOLDED, SORTED)  # sections that are derived for some plans only
_CODES, _VALID = "codes ", "valid "
_BY_ROW = (BITS, _CODES, _VALID)  # sections with one value for each row, whatever the other rows are
MOST_PASSES = 32  # over the rows of a bucket for a key, which cost more than an index
NO_DEADLINE = np.empty(0, np.int64)

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Index:
    """A hash index of the rows of a bucket by one key."""

    starts: I32  # both packed
    order: I32
    codes: Codes


@dataclass(frozen=True)
class SortedIndex:
    """The rows in the order of a key, without those whose key is NULL."""

    values: np.ndarray  # int64, or float64 for a key of type double
    order: I32


def key_text(key: Key) -> str:
    return " & ".join(f"{part.expression.text}:{part.type}" for part in key)


class Bucket:
    """An open bucket. Parts that the file lacks are derived on first use and kept while it is open."""

    def __init__(
        self, rows: pa.RecordBatch, tau: I64, deadline: I64 = NO_DEADLINE, sections: dict[str, np.ndarray] | None = None
    ) -> None:
        self.rows = rows
        self.tau = tau  # of a materialized row, the newest event time of its members
        self.deadline = deadline  # of materialized rows only: no member of a result may be newer
        self._sections: dict[str, np.ndarray] = sections or {}
        self._stored = frozenset(self._sections)  # the others were derived after it was opened
        self._codes: dict[Key, Codes] = {}
        self._indexes: dict[Key, Index] = {}
        self._sorted: dict[KeyPart, SortedIndex] = {}
        self._passes: dict[Key, int] = {}  # over all rows, instead of an index
        self._computed: dict[str, Any] = {}  # what predicates need of the rows,
        self._asked_for: set[str] = set()  # and what of it was asked for since the plan changed
        self.failures: dict[str, int] = {}  # filter -> rows on which it raised, where this object evaluated it

    def __len__(self) -> int:
        return len(self.tau)

    @property
    def alive_until(self) -> I64:
        return self.deadline if len(self.deadline) else self.tau

    @classmethod
    def open(cls, home: Path, info: BucketInfo) -> Bucket:
        rows, sections, is_current = read_file(home / info.file, info.bytes)
        if not is_current:
            sections = {name: one for name, one in sections.items() if not name.startswith((_STARTS, _ORDER))}
        return cls(rows, sections.pop("tau"), sections.pop("deadline", NO_DEADLINE), sections)

    def keep(self, chosen: np.ndarray) -> Bucket:
        """Some rows, with the query sets and codes that are known of them."""
        known = {name: section[chosen] for name, section in self._sections.items() if name.startswith(_BY_ROW)}
        deadline = self.deadline[chosen] if len(self.deadline) else NO_DEADLINE
        return Bucket(self.rows.take(pa.array(chosen)), self.tau[chosen], deadline, known)

    def select(self, names: list[str]) -> Bucket:
        """The same rows with fewer columns."""
        if names == self.rows.schema.names:
            return self
        return Bucket(self.rows.select(names), self.tau, self.deadline, self._sections)

    def codes(self, key: Key) -> Codes:
        if key not in self._codes:
            name = key_text(key)
            stored = self._sections.get(_CODES + name)
            if stored is not None:
                self._codes[key] = Codes(stored, self._sections.get(_VALID + name, EVERY_ROW))
            else:
                self._codes[key] = combine([encode(self.values(part), part.type) for part in key])
        return self._codes[key]

    def values(self, part: KeyPart) -> pa.Array:
        """The values (not codes) of a key part."""
        if part.column is not None:
            return self.rows.column(part.column)
        return evaluate(self.rows, [part.expression.text]).values[0]

    def index(self, key: Key) -> Index:
        if key not in self._indexes:
            name = key_text(key)
            codes = self.codes(key)
            if _STARTS + name in self._sections:
                starts, order = self._sections[_STARTS + name], self._sections[_ORDER + name]
            else:
                made = build_index(codes.values, codes.valid, self.by_time(), slot_bits(len(self)))
                starts, order = packed(*made, len(self))
            self._indexes[key] = Index(starts, order, codes)
        return self._indexes[key]

    def has_index(self, key: Key) -> bool:
        return key in self._indexes or _STARTS + key_text(key) in self._sections

    def index_for(self, key: Key, wanted: I64) -> Index:
        """An index that has the rows with the codes wanted: that of all rows, unless there is none and few are wanted.

        The bucket may be asked again and again, however seldom a plan expects it: then an index of all rows is made."""
        if self.has_index(key) or not is_few(wanted, len(self)) or self._passes.get(key, 0) == MOST_PASSES:
            return self.index(key)
        self._passes[key] = self._passes.get(key, 0) + 1
        codes = self.codes(key)
        return Index(*packed(*index_of_few(wanted, codes, self.by_time()), len(self)), codes)

    def sorted_by(self, part: KeyPart) -> SortedIndex:
        if part not in self._sorted:
            name = _sorted_name(part)
            codes = self.codes((part,))
            values = codes.values.view(np.float64) if part.type == "double" else codes.values
            if name not in self._sections:
                order = np.argsort(values, kind="stable").astype(np.int32)  # NaN comes last, as in SQL
                self._sections[name] = order[codes.valid[order] != 0] if len(codes.valid) else order
            order = self._sections[name]
            self._sorted[part] = SortedIndex(np.ascontiguousarray(values[order]), order)
        return self._sorted[part]

    def by_time(self) -> I32:
        """The rows in the order of event time; empty where they stand in it already."""
        if "by time" not in self._sections:
            in_order = len(self) < 2 or bool((self.tau[1:] >= self.tau[:-1]).all())
            self._sections["by time"] = (
                np.empty(0, np.int32) if in_order else np.argsort(self.tau, kind="stable").astype(np.int32)
            )
        return self._sections["by time"]

    def times(self, prefix: str) -> I64:
        """The event times of the rows, or of a member of materialized rows whose columns have this prefix."""
        return np.asarray(self.rows.column(prefix + TAU)) if prefix else self.tau

    def computed(self, name: str, compute: Callable[[], T]) -> T:
        """A value made of the rows, cached under a name until a plan has not used it."""
        self._asked_for.add(name)
        if name not in self._computed:
            self._computed[name] = compute()
        found: T = self._computed[name]
        return found

    def forget(self, derived: Derived) -> None:
        """Free the memory of derived parts that a new plan does not use.

        What predicates compute is no part of a plan. It goes when the plan that changes now did not ask for it."""
        keys, parts = set(derived.keys), {part for key in derived.keys for part in key} | set(derived.sorted_by)
        used = {block.name for block in derived.blocks} | {_sorted_name(part) for part in derived.sorted_by}
        _keep(self._sections, lambda name: name in self._stored or name in used or not name.startswith(_FORGOTTEN))
        _keep(self._indexes, lambda key: key in keys)
        _keep(self._codes, lambda key: key in keys or set(key) <= parts)
        _keep(self._sorted, lambda part: part in derived.sorted_by)
        _keep(self._computed, lambda name: name in self._asked_for)
        self._asked_for.clear()

    def words(self, block: Block) -> Words:
        """The query set of each row under a block of filters."""
        name = block.name
        if name not in self._sections:
            self._sections[name], failures = evaluate_block(self.rows, block)
            self.failures.update(failures)
        return self._sections[name]

    def folded(self, blocks: tuple[Block, ...]) -> Words:
        """For each row which of several blocks want it; an empty block wants every row."""
        name = FOLDED + " ".join(block.name for block in blocks)
        if name not in self._sections:
            self._sections[name] = fold([self.words(block) if block else None for block in blocks], len(self))
        return self._sections[name]

    def write(self, home: Path, file: str, derived: Derived, **identity: Any) -> BucketInfo:
        """Write the bucket with the derived parts asked for, and say what the manifest must know."""
        sections: dict[str, np.ndarray] = {"tau": self.tau}
        if len(self.deadline):
            sections["deadline"] = self.deadline
        for block in derived.blocks:
            sections[block.name] = self.words(block)
        for key in derived.keys:
            name, index = key_text(key), self.index(key)
            sections[_STARTS + name], sections[_ORDER + name] = index.starts, index.order
            if not _is_own_code(key):
                sections[_CODES + name] = index.codes.values
                if len(index.codes.valid):
                    sections[_VALID + name] = index.codes.valid
        for part in derived.sorted_by:
            sections[_sorted_name(part)] = self.sorted_by(part).order
        size, checksum = write_file(home / file, self.rows, sections)
        return self.info(file, size, checksum, **identity)

    def info(self, file: str, size: int, checksum: int, **identity: Any) -> BucketInfo:
        """What the manifest, or the order of another phase, must know of it."""
        return BucketInfo(
            file=file,
            rows=len(self),
            bytes=size,
            checksum=checksum,
            tau_min=int(self.tau.min()),
            tau_max=int(self.tau.max()),
            alive_until=int(self.alive_until.max()),
            computed=tuple(name for name in self.rows.schema.names if name.startswith(HIDDEN)),
            **identity,
        )


def concatenated(buckets: Sequence[Bucket]) -> Bucket:
    """All rows of buckets of one store, with the query sets and codes that are known of all of them."""
    if len(buckets) == 1:
        return buckets[0]
    rows = pa.Table.from_batches([bucket.rows for bucket in buckets]).combine_chunks().to_batches()[0]
    tau, deadline = (np.concatenate(parts) for parts in zip(*((b.tau, b.deadline) for b in buckets), strict=True))
    return Bucket(rows, tau, deadline, _known_of_all(buckets))


def _known_of_all(buckets: Sequence[Bucket]) -> dict[str, np.ndarray]:
    known: dict[str, np.ndarray] = {}
    for name in set.intersection(*(set(bucket._sections) for bucket in buckets)):
        if name.startswith((BITS, _CODES)):
            known[name] = np.concatenate([bucket._sections[name] for bucket in buckets])
        if name.startswith(_CODES):
            valid = _VALID + name.removeprefix(_CODES)
            if any(valid in bucket._sections for bucket in buckets):
                every = [bucket._sections.get(valid, np.ones(len(bucket), EVERY_ROW.dtype)) for bucket in buckets]
                known[valid] = np.concatenate(every)
    return known


def _keep(cache: dict[K, Any], wanted: Callable[[K], bool]) -> None:
    for unwanted in [key for key in cache if not wanted(key)]:
        del cache[unwanted]


def _sorted_name(part: KeyPart) -> str:
    return SORTED + key_text((part,))


def _is_own_code(key: Key) -> bool:
    """Whether the column's own buffer is the array of codes, so that storing them again is waste."""
    return len(key) == 1 and key[0].column is not None and key[0].type in ("bigint", "timestamp", "timestamp_ntz")
