"""Predicates between two aliases: equalities, and other conditions on a pair of rows.

A `Theta` is a condition on a pair of rows of any two aliases: its columns are those of a left row ("l.x")
and of a right one ("r.y"). So the same predicate in queries with other alias names is the same value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.model.expression import TRUE, Cast, ColumnRef, Expression
from watersmeet.model.identity import spelled_as
from watersmeet.model.types import arrow_type

LEFT, RIGHT = "l", "r"  # the two rows

# One operation after the other on a stack, as (name, argument): see store/blocks.py for what runs it.
Program = tuple[tuple[str, float], ...]


@spelled_as("KeyPart", "expression", "type", "column")
@dataclass(frozen=True)
class KeyPart:
    """One side of an equality: an expression over one stream, already cast to the type compared in."""

    expression: Expression
    type: str
    column: str | None = field(init=False, compare=False)  # where the expression is nothing else: no evaluation needed

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.expression.name if isinstance(self.expression, ColumnRef) else None)

    @classmethod
    def of(cls, expression: Expression, compared_in: str) -> KeyPart:
        """An expression whose type is known, converted to a wider one if it has to be."""
        same = arrow_type(expression.type) == arrow_type(compared_in)
        return cls(expression if same else Cast((expression,), compared_in, exact=True), compared_in)

    @property
    def name(self) -> str:
        """What statistics and columns of materialized stores are called after."""
        return self.column or self.expression.text

    @property
    def sort_key(self) -> tuple[str, str]:
        return self.expression.text, self.type


@spelled_as("Band", "left", "right", "low", "high", "proves")
@dataclass(frozen=True)
class Band:
    """What a predicate says of a difference: low <= right - left <= high. An end that is None is open.

    Both keys are of one type: bigint, date, timestamp (offsets in microseconds) or double. A row pair outside of the
    band never satisfies the predicate; one inside does if the band `proves` it, otherwise it has to be tested."""

    left: KeyPart
    right: KeyPart
    low: float | int | None
    high: float | int | None
    proves: bool = False


@spelled_as("Registered", "name", "digest", "by_row", "seconds")
@dataclass(frozen=True)
class Registered:
    """A predicate in Python that queries call by name. It travels with the plan, so that every worker has it."""

    name: str
    code: bytes = field(repr=False)  # the function, pickled
    digest: str  # of the code, for those who print
    by_row: bool  # called for each pair of rows with plain values, instead of once for a block with arrays
    seconds: float  # that one block may take


@spelled_as("Theta", "text", "left", "right", "band", "program", "strict", "function", "arguments")
@dataclass(frozen=True)
class Theta:
    """A condition on a left and a right row that is no equality of keys."""

    condition: Expression = field(repr=False)  # for a registered predicate, its call
    text: str = field(init=False, compare=False)
    left: tuple[KeyPart, ...]  # the columns that it reads of either row
    right: tuple[KeyPart, ...]
    band: Band | None = None
    program: Program = ()  # the same as the text for numbers; empty where only SQL will do
    strict: bool = True  # whether a NULL among what it reads always makes it not true
    function: Registered | None = None  # in place of the condition,
    arguments: tuple[Expression, ...] = ()  # and what it is given

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.condition.text)

    @property
    def is_always_true(self) -> bool:
        return not self.left and not self.right and self.function is None


CROSS = Theta(TRUE, (), ())  # the predicate of a CROSS JOIN


@dataclass(frozen=True)
class _TwoAliases:
    """What equalities and other predicates have in common: two aliases."""

    left: str
    right: str

    def touches(self, alias: str) -> bool:
        return alias in (self.left, self.right)

    def other(self, alias: str) -> str:
        return self.right if alias == self.left else self.left


@spelled_as("Equality", "left", "right", "left_key", "right_key")
@dataclass(frozen=True)
class Equality(_TwoAliases):
    """Two aliases whose keys must be equal."""

    left_key: KeyPart
    right_key: KeyPart


@spelled_as("Predicate", "left", "right", "theta", "mirrored")
@dataclass(frozen=True)
class Predicate(_TwoAliases):
    """A theta between two aliases of a query, and the same with the sides exchanged."""

    theta: Theta
    mirrored: Theta
