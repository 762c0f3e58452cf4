"""The last step of a query with partial aggregates: HAVING, outputs, DISTINCT, ORDER BY, LIMIT over few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from watersmeet.errors import SqlError
from watersmeet.model import Expression, Output
from watersmeet.model.expression import ColumnRef, Operation, all_of
from watersmeet.model.forms import END, START, FinalStage, SortOrder, key_column
from watersmeet.sql.bind import ExpressionCheck
from watersmeet.sql.functions.decimal_quotient import quotient
from watersmeet.sql.functions.rendering import constant_of
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.resolve.resolved import Bound, Nested, ResolvedSelect, WindowEnd
from watersmeet.sql.resolve.typing import only_spark
from watersmeet.sql.tree import Aggregate, Call, Over, Scalar, bare
from watersmeet.sql.typing import Typing


class FinalBuilder:
    """Builds the last step of one query; `combine` gives an aggregate as an expression over partials."""

    def __init__(
        self, lowering: Lowering, keys: Sequence[tuple[Scalar, str]], combine: Callable[[Aggregate], Expression]
    ) -> None:
        self._check = lowering.check
        self._keys = {bare(node): key_column(at, kind) for at, (node, kind) in enumerate(keys)}
        self._combine = combine
        self._typing = FewRowsTyping(lowering.site, self._leaf)

    def _leaf(self, node: Scalar) -> Expression | None:
        key = self._keys.get(bare(node))
        if key is not None:
            return key
        if isinstance(node, Aggregate):
            return self._combine(node)
        if isinstance(node, WindowEnd):
            return ColumnRef(END if node.end else START, "timestamp")
        if isinstance(node, Nested | Over):
            raise DoesNotFit("it has a subquery" if isinstance(node, Nested) else "it has a function with OVER")
        assert not isinstance(node, Bound), node
        return None

    def read(
        self, query: ResolvedSelect, *, nonempty: Expression | None = None
    ) -> tuple[tuple[Output, ...], FinalStage]:
        """The outputs and the rest; `nonempty` is a condition without which there is no group at all."""
        outputs = tuple(
            Output(output.name, output.type, self.value(node))
            for output, node in zip(query.outputs, query.values, strict=True)
        )
        conditions = [] if nonempty is None else [nonempty]
        if query.having is not None:
            conditions.append(self.value(query.having))
        order: list[SortOrder] = []
        if query.limit is not None or query.offset:
            order = [SortOrder(self.value(each.value), each.descending, each.nulls_first) for each in query.order]
            known = [each.expression for each in order]
            order += [SortOrder(each.expression, False, True) for each in outputs if each.expression not in known]
        having = all_of(conditions) if conditions else None
        return outputs, FinalStage(having, query.distinct, tuple(order), query.limit, query.offset)

    def value(self, node: Scalar) -> Expression:
        return proven(self._check, node, self._typing)


class FewRowsTyping(Typing):
    """Typing of the last step: of its few rows, quotients of decimals are computed here and not by Spark."""

    def call(self, node: Call, arguments: list[Expression]) -> Expression:
        found = quotient(*arguments) if node.name == "/" else None
        return found or super().call(node, arguments)


def proven(check: ExpressionCheck, node: Scalar, typing: Typing) -> Expression:
    """An expression that DuckDB computes as Spark does; raises DoesNotFit."""
    try:
        found = typing.whole(node)
    except SqlError as error:
        raise DoesNotFit(f"outside of Spark, {error.problem}") from None
    return checked(check, node, found)


def checked(check: ExpressionCheck, node: Scalar, expression: Expression) -> Expression:
    """The expression, if DuckDB gives it the same type; raises DoesNotFit."""
    try:
        found = check.bound(node, expression)
    except SqlError as error:
        raise DoesNotFit(f"outside of Spark, {error.problem}") from None
    if only_spark(found):
        raise DoesNotFit("it has a function that only Spark computes")
    return found


def some_row(count: Expression) -> Expression:
    return Operation(">", (count, constant_of(0, "bigint")))
