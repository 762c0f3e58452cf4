"""A slice store: for each slice of event time and each key one row, with accumulators of aggregates.

A row has the start of its slice as event time, the columns `k0`, `k1`, … of the key, and the columns of each
accumulator (accumulator.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.model.expression import ColumnRef, Expression
from watersmeet.model.identity import digest, identity
from watersmeet.model.predicate import KeyPart
from watersmeet.model.types import arrow_type
from watersmeet.store.derived import Derived
from watersmeet.store.placement import Placement

if TYPE_CHECKING:
    from watersmeet.store.bucket import Bucket

NAME_PREFIX = "slices"
EARLIEST = "earliest"  # a column of spread stores: the start of the slice of the oldest member


@dataclass(frozen=True)
class SliceStore:
    """Rows of `source` (a stream, or the results of a continuous query) that pass one of the filters, by slice and key.

    Without filters all rows count. All queries with this source and these keys can read it whose parts are among its
    parts and whose grid is made of slices of this width."""

    source: str
    filters: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    parts: tuple[Accumulator, ...]
    width: int  # microseconds
    salt: str = ""  # tells it from another one of the same kind that has less of the past
    spread: bool = False  # rows are results of a join, which have members in several slices
    partitions: int = field(default=1, compare=False)  # of the plan

    is_probed: ClassVar[bool] = False

    @cached_property
    def name(self) -> str:
        """Equal stores have equal names, from version to version."""
        types = tuple(column.type for each in self.expressions for column in each.columns)
        content = identity((self.source, self.filters, self.keys, self.key_types, self.parts, self.width, types))
        return f"{NAME_PREFIX} {self.source} {digest(content + self.salt)}"

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def at(self) -> dict[Accumulator, int]:
        return {part: at for at, part in enumerate(self.parts)}

    @cached_property
    def key_types(self) -> tuple[str, ...]:
        return tuple(key.type for key in self.keys)

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        return tuple(f"k{at}" for at in range(len(self.keys)))

    @cached_property
    def placement(self) -> Placement:
        return self.placed_by(self.key_names, self.partitions)

    def placed_by(self, columns: Iterable[str], partitions: int) -> Placement:
        """Where rows belong if they are placed by some of their keys."""
        return Placement.by_all(
            tuple(KeyPart(ColumnRef(name, kind), kind) for name, kind in self.types_of(columns)), partitions
        )

    def types_of(self, columns: Iterable[str]) -> list[tuple[str, str]]:
        """Some key columns with their types."""
        types = dict(zip(self.key_names, self.key_types, strict=True))
        return [(name, types[name]) for name in columns]

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """The columns that tell the rows of a slice from each other."""
        return (*self.key_names, EARLIEST) if self.spread else self.key_names

    @property
    def derived(self) -> Derived:
        return Derived()

    def merged(self, buckets: Iterable[Bucket], horizon: int) -> Bucket | None:
        """Rows of equal slices and keys are combined."""
        from watersmeet.aggregate.combined import combined_buckets  # compiled loops, which a plan alone does not need

        return combined_buckets(self, list(buckets), horizon)

    @cached_property
    def schema(self) -> pa.Schema:
        keys = [(name, arrow_type(kind)) for name, kind in zip(self.key_names, self.key_types, strict=True)]
        keys += [(EARLIEST, pa.int64())] if self.spread else []
        return pa.schema([*keys, *(column for at, part in enumerate(self.parts) for column in part.columns(at))])

    @cached_property
    def _columns(self) -> dict[Accumulator, tuple[str, ...]]:
        return {part: tuple(name for name, _ in part.columns(at)) for part, at in self.at.items()}

    def columns_of(self, part: Accumulator) -> tuple[str, ...]:
        return self._columns[part]

    @property
    def expressions(self) -> list[Expression]:
        arguments = [each for part in self.parts for each in (part.argument, part.filter) if each is not None]
        return [*self.filters, *self.keys, *arguments]
