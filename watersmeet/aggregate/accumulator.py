"""What is stored for an aggregate in a slice: the accumulators that partials of queries are made of.

Every sum, extreme and moment stands beside the count of its arguments, which says where it is NULL; partials with the
same argument and filter share it.

    count     how many arguments are not NULL (how many rows, without an argument): int64
    sum       of integers and decimals: digits of 32 bits, the highest with the sign and with room for 2^31 rows
              of double and float: one double
    min, max  the value, NULL where there is none
    moments   mean, and sum of squared distances from it
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from watersmeet.model.expression import Expression
from watersmeet.model.forms import PartialAggregate
from watersmeet.model.identity import spelled_as
from watersmeet.model.types import SHORT_DECIMAL_DIGITS, arrow_type


@spelled_as("Part", "function", "argument", "filter")
@dataclass(frozen=True)
class Accumulator:
    function: str  # as those of PartialAggregate
    argument: Expression | None = None
    filter: Expression | None = None  # rows for which it is not true count for nothing

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # what is known of a part is looked up by it, many times in each tick
        return hash((self.function, self.argument, self.filter))

    def __reduce__(self) -> tuple[Any, ...]:
        return Accumulator, (self.function, self.argument, self.filter)  # another process has other hashes

    @cached_property
    def counted(self) -> Accumulator:
        """The accumulator that counts the arguments of this one."""
        return Accumulator("count", self.argument, self.filter)

    @property
    def digits(self) -> int:
        """The number of 32-bit digits in which a sum is stored; 0 for a double."""
        assert self.argument is not None
        kind = arrow_type(self.argument.type)
        if pa.types.is_decimal(kind):
            return 2 if kind.precision <= SHORT_DECIMAL_DIGITS else 4
        if pa.types.is_integer(kind):
            return 2 if kind.bit_width == 64 else 1
        return 0

    def columns(self, at: int) -> tuple[tuple[str, pa.DataType], ...]:
        """The names and types of the columns of the accumulator with this number."""
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


ROWS = Accumulator("count")  # how many rows


def accumulators_of(partial: PartialAggregate) -> tuple[Accumulator, ...]:
    """The accumulator that a partial is read from, and the count beside it."""
    found = Accumulator(partial.function, partial.argument, partial.filter)
    return (found,) if partial.function == "count" else (found, found.counted)
