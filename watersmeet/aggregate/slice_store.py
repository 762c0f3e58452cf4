"""What a slice store holds: for each slice of event time and each key one row, with parts of aggregates.

A row has the start of its slice as event time, the columns `k0`, `k1`, … of the key, and the columns of each part. A
part is what the partials of queries are made of: every sum, extreme and moment stands beside the count of its
arguments, which says where it is NULL; partials with the same argument and filter share it.

    count     how many arguments are not NULL (how many rows, without an argument): int64
    sum       of integers and decimals: digits of 32 bits, the highest with the sign and with room for 2^31 rows
              of double and float: one double
    min, max  the value, NULL where there is none
    moments   mean, and sum of squared distances from it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from watersmeet.model.expression import ColumnRef, Expression
from watersmeet.model.forms import PartialAggregate
from watersmeet.model.identity import digest, identity, spelled_as
from watersmeet.model.predicate import KeyPart
from watersmeet.model.types import arrow_type
from watersmeet.store.derived import Derived
from watersmeet.store.placement import Placement

NAME_PREFIX = "slices"
SHORT_DECIMAL_DIGITS = 18


@spelled_as("Part", "function", "argument", "filter")
@dataclass(frozen=True)
class Part:
    function: str  # as those of PartialAggregate
    argument: Expression | None = None
    filter: Expression | None = None  # rows for which it is not true count for nothing

    @property
    def counted(self) -> Part:
        """The part that says of how many arguments this one is made."""
        return Part("count", self.argument, self.filter)

    @property
    def digits(self) -> int:
        """Of a sum: in how many digits it is kept; 0 for a double."""
        assert self.argument is not None
        kind = arrow_type(self.argument.type)
        if pa.types.is_decimal(kind):
            return 2 if kind.precision <= SHORT_DECIMAL_DIGITS else 4
        if pa.types.is_integer(kind):
            return 2 if kind.bit_width == 64 else 1
        return 0

    def columns(self, at: int) -> tuple[tuple[str, pa.DataType], ...]:
        """The names and types of the columns of the part with this number."""
        if self.function == "count":
            return ((f"c{at}", pa.int64()),)
        if self.function == "moments":
            return (f"c{at}_mean", pa.float64()), (f"c{at}_m2", pa.float64())
        assert self.argument is not None
        if self.function == "sum":
            if not self.digits:
                return ((f"c{at}", pa.float64()),)
            return tuple((f"c{at}_{digit}", pa.int64()) for digit in range(self.digits))
        return ((f"c{at}", arrow_type(self.argument.type)),)

    @property
    def sort_key(self) -> tuple[str, str, str]:
        return self.function, str(self.argument), str(self.filter)


ROWS = Part("count")  # how many rows


def parts_of(partial: PartialAggregate) -> tuple[Part, ...]:
    """The part that a partial is read from, and the count beside it."""
    part = Part(partial.function, partial.argument, partial.filter)
    return (part,) if partial.function == "count" else (part, part.counted)


@dataclass(frozen=True)
class SliceStore:
    """Rows of `source` (a stream, or the results of a continuous query) that pass one of the filters, by slice and key.

    Without filters all rows count. All queries with this source and these keys can read it whose parts are among its
    parts and whose grid is made of slices of this width."""

    source: str
    filters: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    parts: tuple[Part, ...]
    width: int  # microseconds
    salt: str = ""  # tells it from another one of the same kind that has less of the past
    partitions: int = field(default=1, compare=False)  # of the plan

    @cached_property
    def name(self) -> str:
        """Equal stores have equal names, from version to version."""
        types = tuple(column.type for each in self._expressions() for column in each.columns)
        content = identity((self.source, self.filters, self.keys, self.key_types, self.parts, self.width, types))
        return f"{NAME_PREFIX} {self.source} {digest(content + self.salt)}"

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def at(self) -> dict[Part, int]:
        return {part: at for at, part in enumerate(self.parts)}

    @cached_property
    def key_types(self) -> tuple[str, ...]:
        return tuple(key.type for key in self.keys)

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        return tuple(f"k{at}" for at in range(len(self.keys)))

    @cached_property
    def placement(self) -> Placement:
        named = zip(self.key_names, self.key_types, strict=True)
        return Placement.by_all(tuple(KeyPart(ColumnRef(name, kind), kind) for name, kind in named), self.partitions)

    @property
    def derived(self) -> Derived:
        return Derived()

    @cached_property
    def schema(self) -> pa.Schema:
        keys = [(name, arrow_type(kind)) for name, kind in zip(self.key_names, self.key_types, strict=True)]
        return pa.schema([*keys, *(column for at, part in enumerate(self.parts) for column in part.columns(at))])

    def columns_of(self, part: Part) -> tuple[str, ...]:
        at = self.at[part]
        return tuple(name for name, _ in part.columns(at))

    def _expressions(self) -> list[Expression]:
        arguments = [each for part in self.parts for each in (part.argument, part.filter) if each is not None]
        return [*self.filters, *self.keys, *arguments]
