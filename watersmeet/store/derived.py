"""What is derived of the rows of a store and kept beside them: indexes by keys, words of filters, orders.

Plans name it. This module imports no compiled loops, so that a plan can be made without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from watersmeet.model import Expression, KeyPart
from watersmeet.model.identity import digest, identity
from watersmeet.model.types import SHORT_DECIMAL_DIGITS, arrow_type

Key = tuple[KeyPart, ...]
Bit = tuple[Expression, ...]  # alternatives, over the columns of the store

WIDEST = 64  # bits of a word
TAU = "τ"  # the event time of a member, as a column of a materialized store
BITS = "bits "  # begins the name of a bucket's section of words
FEWEST_ROWS = 4096  # of a bucket below which an index is made at once
MOST_KEYS = 4096  # to look up in one pass: a table of them stays in the cache of the processor


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """At most WIDEST bits. A walk asks for their words again and again, so that names are compared and not filters."""

    bits: tuple[Bit, ...] = ()

    @cached_property
    def name(self) -> str:
        """The name under which a bucket keeps the words of a block: equal texts, equal names."""
        return BITS + digest(identity(self.bits))

    @cached_property
    def _types(self) -> tuple[str, ...]:
        return tuple(column.type for bit in self.bits for each in bit for column in each.columns)

    def __len__(self) -> int:
        return len(self.bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.name == other.name and self._types == other._types

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return repr(self.bits)


@dataclass(frozen=True)
class Derived:
    """Which derived parts a bucket is written with."""

    keys: tuple[Key, ...] = ()
    blocks: tuple[Block, ...] = ()
    sorted_by: tuple[KeyPart, ...] = ()
    computed: tuple[str, ...] = ()  # which columns of those that Spark computes the rows keep


def is_exact(key: Key) -> bool:
    """Whether equal codes prove equal keys."""
    if len(key) != 1:
        return False
    kind = arrow_type(key[0].type)
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= SHORT_DECIMAL_DIGITS)
    return not (pa.types.is_string(kind) or pa.types.is_binary(kind))
