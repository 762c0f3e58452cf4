"""The members of a join, and scalars over their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from watersmeet.model import Expression
from watersmeet.model.expression import column_ref
from watersmeet.sql.bind import Binder
from watersmeet.sql.resolve.resolved import Bound
from watersmeet.sql.site import Site, Span
from watersmeet.sql.tree import Call, Node, Truth, unwrapped, without_parentheses
from watersmeet.sql.typing import Typing


@dataclass(frozen=True)
class Member:
    """One alias of a join."""

    alias: str
    label: str  # of its columns in resolved scalars
    stream: str
    span: Span


NameRow = Callable[[Member], str]  # what the row of a member is called in an expression


class Scalars:
    """Scalars of one query as expressions over rows of its members."""

    def __init__(self, site: Site, binder: Binder, members: list[Member]) -> None:
        self.site, self.binder, self.members = site, binder, members
        self._by_label = {member.label: member for member in members}

    def member(self, column: Bound) -> Member:
        return self._by_label[column.relation]

    def read(self, node: Node) -> list[Member]:
        """The members whose columns a scalar reads, in the order of FROM."""
        used = {below.relation for below in node.walk() if isinstance(below, Bound)}
        return [member for member in self.members if member.label in used]

    def expression(self, node: Node, name: NameRow) -> Expression:
        return self.with_columns(node, lambda column: column_ref(column.column, column.type, name(self.member(column))))

    def with_columns(self, node: Node, column: Callable[[Bound], Expression]) -> Expression:
        """The expression, where `column` says what a column stands for."""
        root = unwrapped(node)
        if isinstance(root, Bound):  # as most keys are
            return column(root)
        return Typing(self.site, lambda inner: column(inner) if isinstance(inner, Bound) else None).whole(root)

    def check_functions(self, node: Node) -> None:
        self.binder.check_calls([below for below in node.walk() if isinstance(below, Call) and below.function])


def conjuncts(node: Node | None) -> Iterator[Node]:
    """What stands between the ANDs, from left to right, without parentheses around it."""
    if node is None:
        return
    inner = unwrapped(node)
    if isinstance(inner, Call) and inner.name == "and" and not inner.function:
        for each in inner.arguments:
            yield from conjuncts(each)
    else:
        yield inner


def without_not(node: Node) -> tuple[bool, Node]:
    """Whether a condition is negated, and what."""
    if isinstance(node, Call) and node.name == "not" and not node.function:
        return True, without_parentheses(node.arguments[0])
    return False, node


def sides(node: Node) -> tuple[Node, Node] | None:
    """Both sides of an equality."""
    if isinstance(node, Call) and node.name == "=" and not node.function:
        return node.arguments[0], node.arguments[1]
    return None


def comparisons(node: Node) -> tuple[Node, ...]:
    """`x BETWEEN y AND z` as two comparisons, anything else as it is."""
    if not isinstance(node, Call) or node.name != "between" or node.function:
        return (node,)
    value, low, high = node.arguments
    return (
        Call(">=", (value, low), where=lambda: _around(value, low)),
        Call("<=", (value, high), where=lambda: _around(value, high)),
    )


def is_true(node: Node) -> bool:
    return isinstance(node, Truth) and node.value


def _around(one: Node, other: Node) -> Span:
    spans = (one.span, other.span)
    return min(start for start, _ in spans), max(end for _, end in spans)
