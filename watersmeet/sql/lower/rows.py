"""The members of a join, and scalars over their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.model import Expression
from watersmeet.model.expression import column_ref
from watersmeet.sql.bind import ExpressionCheck
from watersmeet.sql.resolve.resolved import Bound
from watersmeet.sql.site import Site, Span
from watersmeet.sql.tree import Call, Scalar, Truth, unwrapped
from watersmeet.sql.typing import Typing


@dataclass(frozen=True)
class JoinAlias:
    """One alias of a join."""

    alias: str  # the label of its scan, which no other has
    stream: str
    span: Span


NameRow = Callable[[JoinAlias], str]  # what the row of a member is called in an expression


class JoinScalars:
    """Scalars of one query as expressions over rows of its members."""

    def __init__(self, site: Site, check: ExpressionCheck, members: list[JoinAlias]) -> None:
        self.site, self.check, self.members = site, check, members
        self._by_alias = {member.alias: member for member in members}

    def member(self, column: Bound) -> JoinAlias:
        return self._by_alias[column.relation]

    def read(self, node: Scalar) -> list[JoinAlias]:
        """The members whose columns a scalar reads, in the order of FROM."""
        used = {below.relation for below in node.walk() if isinstance(below, Bound)}
        return [member for member in self.members if member.alias in used]

    def expression(self, node: Scalar, name: NameRow) -> Expression:
        return self.with_columns(node, lambda column: column_ref(column.column, column.type, name(self.member(column))))

    def with_columns(self, node: Scalar, column: Callable[[Bound], Expression]) -> Expression:
        """The expression, where `column` says what a column stands for."""
        root = unwrapped(node)
        if isinstance(root, Bound):  # as most keys are
            return column(root)
        return Typing(self.site, lambda inner: column(inner) if isinstance(inner, Bound) else None).whole(root)

    def check_functions(self, node: Scalar) -> None:
        self.check.check_calls([below for below in node.walk() if isinstance(below, Call) and below.function])


def sides(node: Scalar) -> tuple[Scalar, Scalar] | None:
    """Both sides of an equality."""
    if isinstance(node, Call) and node.name == "=" and not node.function:
        return node.arguments[0], node.arguments[1]
    return None


def comparisons(node: Scalar) -> tuple[Scalar, ...]:
    """`x BETWEEN y AND z` as two comparisons, anything else as it is."""
    if not isinstance(node, Call) or node.name != "between" or node.function:
        return (node,)
    value, low, high = node.arguments
    return (
        Call(">=", (value, low), where=lambda: _around(value, low)),
        Call("<=", (value, high), where=lambda: _around(value, high)),
    )


def is_true(node: Scalar) -> bool:
    return isinstance(node, Truth) and node.value


def _around(one: Scalar, other: Scalar) -> Span:
    spans = (one.span, other.span)
    return min(start for start, _ in spans), max(end for _, end in spans)
