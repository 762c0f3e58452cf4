"""Aggregates over the results of a continuous join: GROUP BY …, window(result_time(), '1 minute')."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.model import ColumnRef, Expression, Output, Stream, member_column
from watersmeet.model.forms import JoinAggregates, PartialAggregate
from watersmeet.sql.lower.continuous import JoinLowering
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.slices import Rows, grouped
from watersmeet.sql.resolve.resolved import ResolvedSelect


def join_aggregates(lowering: Lowering, query: ResolvedSelect) -> JoinAggregates:
    """The join, with the columns that keys and aggregates read as its outputs, and what is aggregated of them."""
    site = lowering.site
    join = JoinLowering(lowering, query)
    if join.leaf is not None:
        site.fail(
            join.leaf.table.written.span,
            "aggregates over a continuous join have only inner joins",
            hint="use JOIN, or [RANGE … SLIDE …] at each stream",
        )
    join.check_connected()
    try:
        keys, partials, final, outputs = grouped(
            query, Rows(lowering, {each.alias: each.alias for each in join.members})
        )
    except DoesNotFit as problem:
        site.fail(
            (0, len(site.text)),
            f"an aggregate over a continuous join has to combine: {problem}",
            hint="use count, sum, avg, min, max, variance or stddev, or [RANGE … SLIDE …] at each stream",
        )
    columns = dict.fromkeys(column for each in (*keys, *_arguments(partials)) for column in each.columns)
    inner = tuple(Output(member_column(each.row, each.name), each.type, each) for each in columns)
    first = join.members[0]
    inner = inner or (_any_column(first.alias, lowering.streams[first.stream]),)
    return JoinAggregates(join.form(inner, ()), keys, partials, final, outputs)


def _arguments(partials: tuple[PartialAggregate, ...]) -> Iterator[Expression]:
    for partial in partials:
        yield from (each for each in (partial.argument, partial.filter) if each is not None)


def _any_column(alias: str, stream: Stream) -> Output:
    """Results without a column cannot be counted."""
    time = stream.column(stream.time)
    return Output(member_column(alias, time.name), time.type, ColumnRef(time.name, time.type, alias))
