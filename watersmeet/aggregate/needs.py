"""What aggregates need of the rows of their streams, as keys and partials of slices."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.model.expression import Expression
from watersmeet.model.forms import FactorizedAggregates, JoinPartial, PartialAggregate, SliceAggregates
from watersmeet.model.types import arrow_type


def counts_of(body: SliceAggregates, values: tuple[Expression, ...]) -> tuple[PartialAggregate, ...]:
    """What is stored for each combination of values: how many rows have it, of those that pass each filter."""
    filters = dict.fromkeys(partial.filter for partial in body.partials if partial.distinct == values)
    return tuple(PartialAggregate("count", None, each, "bigint") for each in filters)


def member_keys(body: FactorizedAggregates, at: int) -> tuple[Expression, ...]:
    """By what the rows of a member are grouped: all keys of joins, and the group keys that it has."""
    member = body.members[at]
    up = [part.expression for part in member.join]
    down = [part.expression for child in body.members if child.parent == at for part in child.parent_join]
    found = dict.fromkeys((*up, *down, *(key for _, key in member.keys)))
    return tuple(sorted(found, key=lambda key: (key.text, key.type)))


def member_partials(body: FactorizedAggregates, at: int) -> tuple[PartialAggregate, ...]:
    """What is needed of the rows of a member for all aggregates."""
    found: dict[PartialAggregate, None] = {}
    for partial in body.partials:
        for part in (counted_part(partial, at), factor_part(partial, at)):
            found.setdefault(_as_partial(part))
    return tuple(found)


def _argument(partial: JoinPartial, at: int) -> Expression | None:
    return next((argument for position, argument in partial.arguments if position == at), None)


def _filter(partial: JoinPartial, at: int) -> Expression | None:
    return next((condition for position, condition in partial.filters if position == at), None)


def counted_part(partial: JoinPartial, at: int) -> Accumulator:
    """How many rows of a member count for an aggregate."""
    return Accumulator("count", _argument(partial, at), _filter(partial, at))


def factor_part(partial: JoinPartial, at: int) -> Accumulator:
    """What a member contributes to an aggregate."""
    argument = _argument(partial, at)
    return Accumulator("count" if argument is None else partial.function, argument, _filter(partial, at))


def _as_partial(part: Accumulator) -> PartialAggregate:
    if part.function == "count":
        kind = "bigint"
    elif part.function == "sum":
        assert part.argument is not None
        kind = f"decimal(38,{scale_of(part.argument.type)})" if part.digits else "double"
    else:
        assert part.argument is not None
        kind = part.argument.type
    return PartialAggregate(part.function, part.argument, part.filter, kind)


def scale_of(declared: str) -> int:
    kind = arrow_type(declared)
    return int(kind.scale) if pa.types.is_decimal(kind) else 0
