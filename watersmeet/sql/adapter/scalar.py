"""A scalar expression of Spark's dialect. Times are naive UTC: the session that evaluates one has UTC as its zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from watersmeet.model.expression import Expression
from watersmeet.sql.adapter.expressions import Reader
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Name, Reference, Scalar
from watersmeet.sql.tree import Column
from watersmeet.sql.typing import Typing


@dataclass(frozen=True)
class SparkScalar:
    """See the protocol `Scalar` for what each method means."""

    node: Any
    locate: Callable[[Any], Span]

    @property
    def span(self) -> Span:
        return self.locate(self.node)

    @property
    def is_true(self) -> bool:
        return isinstance(self.node, exp.Boolean) and bool(self.node.this)

    def references(self) -> tuple[Reference, ...]:
        return tuple(self._reference(column) for column in self.node.find_all(exp.Column))

    def functions(self) -> tuple[Name, ...]:
        return tuple(Name(node.name, self.locate(node)) for node in self.node.find_all(exp.Anonymous))

    def call(self) -> tuple[Name, tuple[Scalar, ...]] | None:
        node = self.node.unnest()
        if not isinstance(node, exp.Anonymous):
            return None
        arguments = tuple(SparkScalar(argument, self.locate) for argument in node.expressions)
        return Name(node.name, self.locate(node)), arguments

    def conjuncts(self) -> tuple[Scalar, ...]:
        return tuple(SparkScalar(node, self.locate) for node in conjuncts_of(self.node))

    def comparisons(self) -> tuple[Scalar, ...]:
        node = self.node.unnest()
        if not isinstance(node, exp.Between) or node.args.get("symmetric"):
            return (self,)
        ends = ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"]))
        return tuple(SparkScalar(kind(this=node.this, expression=end), self.locate) for kind, end in ends)

    def sides(self) -> tuple[Scalar, Scalar] | None:
        node = self.node.unnest()
        if not isinstance(node, exp.EQ):
            return None
        return SparkScalar(node.this, self.locate), SparkScalar(node.expression, self.locate)

    def expression(self, site: Site, resolve: Callable[[Reference], Expression]) -> Expression:
        root = self.node.unnest()
        if isinstance(root, exp.Column):  # as most keys are
            return resolve(self._reference(root))
        typing = Typing(
            site, lambda node: resolve(Reference(node.parts, node.span)) if isinstance(node, Column) else None
        )
        return typing.whole(Reader(site, self.locate).read(root))

    def _reference(self, column: Any) -> Reference:
        return Reference(tuple(part.name for part in column.parts), self.locate(column))


def conjuncts_of(node: Any) -> Iterator[Any]:
    """What stands between the ANDs, from left to right."""
    waiting = [node]
    while waiting:
        node = waiting.pop().unnest()
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            yield node


def is_known_function(name: str) -> bool:
    """Whether the parser has an idea of a function of this name, or does not take it for a function at all."""
    try:
        return not isinstance(sqlglot.parse_one(f"{name}(x)", read="spark"), exp.Anonymous)
    except SqlglotError:
        return True
