"""Types of resolved scalars, by Spark's rules. Each scalar of a windowed query gets its type once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from watersmeet.model.expression import ColumnRef, Expression, column_ref
from watersmeet.model.forms import END, START
from watersmeet.model.spark_call import SparkCall
from watersmeet.sql.functions.aggregates import aggregate_type, is_orderable, type_over
from watersmeet.sql.functions.spark_rules import castable, spark_type
from watersmeet.sql.resolve.resolved import Bound, Nested, WindowEnd
from watersmeet.sql.site import Site
from watersmeet.sql.spark_types import VOID, Unsupported, comparable, is_numeric, shown
from watersmeet.sql.tree import Aggregate, Call, Number, Over, Scalar, Star
from watersmeet.sql.typing import Typing, check_value


@dataclass(frozen=True, eq=False, repr=False)
class OnlySpark(Expression):
    """A value that only Spark computes: it has a type, and no text for DuckDB."""

    what: str
    operands: tuple[Expression, ...]
    type: str

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        inner = tuple(column for operand in self.operands for column in operand.columns)
        return (ColumnRef(f"only in spark {self.what}", self.type), *inner)  # so that it is never taken for a constant

    def spelled(self, name: Callable[[ColumnRef], str]) -> str:
        return f"{self.what}({', '.join(operand.spelled(name) for operand in self.operands)})"


def only_spark(expression: Expression) -> bool:
    """Whether some part of it has no text for DuckDB."""
    return isinstance(expression, OnlySpark | SparkCall) or any(only_spark(each) for each in expression.operands)


class Untyped:
    """Gives no types: those of a continuous query come when it is lowered."""

    def value(self, node: Scalar) -> Expression:
        return _UNTYPED

    def condition(self, node: Scalar) -> Expression:
        return _UNTYPED


_UNTYPED = ColumnRef("", "")


class SparkTyping(Typing):
    """Types by what Spark computes. It remembers what it has typed, for the forms that a query is lowered to."""

    def __init__(self, site: Site) -> None:
        super().__init__(site, self._resolved_leaf)
        self._typed_before: dict[int, tuple[Scalar, Expression]] = {}  # by identity of scalars

    def typed(self, node: Scalar) -> Expression:
        known = self._typed_before.get(id(node))
        if known is None:
            known = self._typed_before[id(node)] = node, super().typed(node)
        return known[1]

    def value(self, node: Scalar) -> Expression:
        """The expression of something that is a value of its own: an output, a key."""
        found = self.typed(node)
        check_value(self._site, node, found)
        return found

    def condition(self, node: Scalar) -> Expression:
        found = self.typed(node)
        if found.type not in ("boolean", VOID):
            self._site.fail(
                node.span, f"this condition is {shown(found.type)}, not BOOLEAN", hint="compare it with a value"
            )
        return found

    def call(self, node: Call, arguments: list[Expression]) -> Expression:
        try:
            return super().call(node, arguments)
        except Unsupported as problem:
            kind = spark_type(node.name.lower(), arguments) if arguments else None
            if kind is None:
                raise problem from None
            return OnlySpark(node.name.lower(), tuple(arguments), kind)

    def cast(self, value: Expression, kind: str, safe: bool) -> Expression:
        try:
            return super().cast(value, kind, safe)
        except Unsupported:
            if not castable(value.type, kind):
                raise
            return OnlySpark(f"cast {kind}", (value,), kind)

    def _resolved_leaf(self, node: Scalar) -> Expression | None:
        match node:
            case Bound():
                return column_ref(node.column, node.type, node.relation)
            case WindowEnd():
                return ColumnRef(END if node.end else START, "timestamp")
            case Aggregate():
                return self.aggregate(node)
            case Over():
                return self._over(node)
            case Nested():
                return self._nested(node)
        return None

    def aggregate(self, node: Aggregate) -> Expression:
        star = len(node.arguments) == 1 and isinstance(node.arguments[0], Star)
        try:
            arguments = [] if star else [self._argument(each) for each in node.arguments]
            kind = aggregate_type(node.name, arguments, star, node.distinct)
        except Unsupported as error:
            self._site.fail(node.span, error.problem, hint=error.hint)
        if node.filter is not None:
            arguments.append(self.condition(node.filter))
        return OnlySpark(node.name, tuple(arguments), kind)

    def _over(self, node: Over) -> Expression:
        star = len(node.arguments) == 1 and isinstance(node.arguments[0], Star)
        try:
            arguments = [] if star else [self._argument(each) for each in node.arguments]
            kind = type_over(node.name, arguments, star, bool(node.order))
        except Unsupported as error:
            self._site.fail(node.span, error.problem, hint=error.hint)
        if node.filter is not None:
            self.condition(node.filter)
        for each in (*node.partition, *(key.value for key in node.order)):
            found = self.value(each).type
            if not is_orderable(found):
                self._site.fail(each.span, f"OVER (… {shown(found)} …) is not supported", hint="use simple values")
        return OnlySpark(f"{node.name} over", tuple(arguments), kind)

    def _argument(self, node: Scalar) -> Expression:
        if isinstance(node, Call) and node.function and node.name.lower() == "array":
            shares = [self.typed(each) for each in node.arguments if isinstance(each, Number)]
            within = all(is_numeric(each.type) and 0 <= float(getattr(each, "value", -1)) <= 1 for each in shares)
            if not shares or len(shares) < len(node.arguments) or not within:
                raise Unsupported("array(…) is supported only for shares from 0 to 1", "write array(0.25, 0.75)")
            return OnlySpark("array", tuple(shares), "array<double>")
        return self.value(node)

    def _nested(self, node: Nested) -> Expression:
        if node.kind == "in":
            assert node.value is not None
            value = self.typed(node.value)
            try:
                comparable(value.type, node.query.outputs[0].type)
            except Unsupported as error:
                self._site.fail(node.span, error.problem, hint=error.hint)
            return OnlySpark("in", (value,), "boolean")
        return OnlySpark(node.kind, (), node.type)
