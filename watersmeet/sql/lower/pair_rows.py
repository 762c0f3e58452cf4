"""A windowed inner join that gives rows, as a continuous join whose results are kept until their windows close."""

from __future__ import annotations

from watersmeet.errors import SqlError
from watersmeet.model import ColumnRef, Output, member_column
from watersmeet.model.forms import END, START, PairRows
from watersmeet.sql.lower.continuous import JoinLowering, any_column
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.relational_text import is_constant
from watersmeet.sql.lower.slices import Rows
from watersmeet.sql.resolve.resolved import (
    Nested,
    ResolvedJoin,
    ResolvedQuery,
    ResolvedSelect,
    Scan,
    WindowEnd,
    nodes,
    sources,
)
from watersmeet.sql.tree import Over, Scalar


def pair_rows(lowering: Lowering, query: ResolvedQuery) -> PairRows:
    """The join, with what the outputs of the query need as its outputs; raises DoesNotFit."""
    if not isinstance(query, ResolvedSelect) or not isinstance(query.source, ResolvedJoin):
        raise DoesNotFit("it is no join of streams")
    _check(query)
    try:
        join = JoinLowering(lowering, query)
        join.check_connected()
    except SqlError as error:
        raise DoesNotFit(f"as a continuous join, {error.problem}") from None
    of_results = Rows(lowering, {each.alias: each.alias for each in join.members})
    of_windows = _WithEnds(lowering, {each.alias: each.alias for each in join.members})
    kept: dict[str, Output] = {}
    outputs: list[Output] = []
    for at, (column, node) in enumerate(zip(query.outputs, query.values, strict=True)):
        if is_constant(node) or _reads_window(node):
            value = of_windows.value(node)
            for read in value.columns:
                if read.row:
                    name = member_column(read.row, read.name)
                    kept[name] = Output(name, read.type, read)
        else:
            computed = of_results.value(node)
            value = ColumnRef(f"o{at}", computed.type)
            kept[value.name] = Output(value.name, value.type, computed)
        outputs.append(Output(column.name, column.type, value))
    first = join.members[0]
    form = join.form(tuple(kept.values()) or (any_column(first.alias, lowering.streams[first.stream]),), ())
    if form.spark_columns:
        raise DoesNotFit("it has a function that only Spark computes")
    return PairRows(form, tuple(outputs))


def _check(query: ResolvedSelect) -> None:
    if query.aggregated or query.distinct or query.limit is not None or query.offset:
        raise DoesNotFit("it gives more than the results of its join")
    if not all(
        isinstance(each, Scan) or (isinstance(each, ResolvedJoin) and each.kind in ("inner", "cross"))
        for each in sources(query)
    ):
        raise DoesNotFit("it has other joins than inner ones, or a subquery in FROM")
    if any(isinstance(each, Nested | Over) for each in nodes(query)):
        raise DoesNotFit("it has a subquery, or a function with OVER")
    conditions = [query.where, *(each.on for each in sources(query) if isinstance(each, ResolvedJoin))]
    if any(_reads_window(each) for each in conditions if each is not None):
        raise DoesNotFit("a condition reads the ends of the window")


def _reads_window(node: Scalar) -> bool:
    return any(isinstance(each, WindowEnd) for each in node.walk())


class _WithEnds(Rows):
    """Expressions over a result and the ends of its window."""

    def _of_row(self, column: ColumnRef) -> ColumnRef:
        return column if column.name in (START, END) and not column.row else super()._of_row(column)
