"""From the tree of an expression to a typed `Expression`, by the closed table of sql/functions/.

Every node becomes a call of an entry of the table, or a constant, a column, a cast. A node that is not known here, or a
function that is not in the table, is rejected at its place.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from watersmeet.errors import ModelError
from watersmeet.model.expression import INTERVAL, Expression, Literal, Operation
from watersmeet.model.types import canonical_type
from watersmeet.sql.functions import TABLE, build_call
from watersmeet.sql.functions.arithmetic import negated
from watersmeet.sql.functions.by_spark import BY_SPARK, spark_call
from watersmeet.sql.functions.casts import cast, check_target
from watersmeet.sql.functions.constants import interval_constant
from watersmeet.sql.functions.logic import try_cast
from watersmeet.sql.functions.nested import field
from watersmeet.sql.functions.rejected import reason
from watersmeet.sql.functions.rendering import constant_of, null
from watersmeet.sql.site import Site
from watersmeet.sql.spark_types import MONTHS, VOID, Unsupported
from watersmeet.sql.tree import (
    Call,
    CastTo,
    Field,
    Interval,
    Null,
    Number,
    Parenthesized,
    Scalar,
    Text,
    Truth,
    Unknown,
)

_NO_CALLS = ("between", "in", "and", "or", "not", "case", "item", "div")  # which the grammar has other words for
_LONGEST = 200_000  # characters of DuckDB text


class Typing:
    """Types the expressions of one query. `leaf` says what a column stands for; for other nodes it may return None."""

    def __init__(self, site: Site, leaf: Callable[[Scalar], Expression | None]) -> None:
        self._site = site
        self._leaf = leaf

    def whole(self, node: Scalar) -> Expression:
        found = self.typed(node)
        if len(found.text) > _LONGEST:
            self._site.fail(
                node.span, "this expression is too long", hint="split it into several conditions or outputs"
            )
        return found

    def typed(self, node: Scalar) -> Expression:
        found = self._leaf(node)
        if found is not None:
            return found
        try:
            return self._typed(node)
        except Unsupported as error:
            self._site.fail(node.span, error.problem, hint=error.hint)

    def _typed(self, node: Scalar) -> Expression:
        match node:
            case Call():
                return self.call(node, [self.typed(argument) for argument in self._known(node).arguments])
            case Parenthesized():
                inner = self.typed(node.inner)
                return inner if isinstance(inner, Literal) else Operation("()", (inner,), inner.type)
            case CastTo():
                kind = target_of(node)
                return self.cast(self.typed(node.value), kind, node.safe)
            case Field():
                return field(self.typed(node.value), node.name)
            case Null():
                return null(VOID)
            case Truth():
                return constant_of(node.value, "boolean")
            case Text():
                return constant_of(node.value, "string")
            case Interval():
                return interval_constant(node.count, node.unit)
            case Number():
                return number_constant(node.text)
            case Unknown():
                raise Unsupported(f"{node.what} is not supported", node.hint)
        raise AssertionError(node)

    def cast(self, value: Expression, kind: str, safe: bool) -> Expression:
        return try_cast(value, kind) if safe else cast(value, kind)

    def _known(self, node: Call) -> Call:
        """The call, if there is such a function: before anything is said of its arguments."""
        name = node.name.lower()
        if node.function and (name not in TABLE or name in _NO_CALLS) and name not in BY_SPARK:
            problem, hint = reason(node.name)
            raise Unsupported(problem, hint)
        return node

    def call(self, node: Call, arguments: list[Expression]) -> Expression:
        name = node.name.lower()
        if name == "-" and len(arguments) == 1 and isinstance(node.arguments[0], Number):
            (constant,) = arguments
            return negated(constant) if isinstance(constant, Literal) else build_call("-", arguments)
        if not node.function:
            found = build_call(name, arguments)
            is_and = isinstance(found, Operation) and found.operator == "AND"
            return Operation("()", (found,), "boolean") if name == "between" and is_and else found
        if name not in TABLE or name in _NO_CALLS:
            return spark_call(name, arguments)
        try:
            return build_call(name, arguments)
        except Unsupported:
            if name not in BY_SPARK:
                raise
            return spark_call(name, arguments)


def check_value(site: Site, node: Scalar, found: Expression) -> None:
    """Reject what is no value of its own: an output or a key."""
    if found.type in (INTERVAL, MONTHS):
        site.fail(node.span, "an INTERVAL can be neither an output nor a key", hint="use timestampdiff(SECOND, …, …)")
    if found.type == VOID:
        site.fail(node.span, "NULL alone has no type", hint="CAST(NULL AS INT) has one")


def target_of(node: CastTo) -> str:
    try:
        kind = canonical_type(node.type)
    except ModelError as error:
        raise Unsupported(error.problem, error.hint) from None
    check_target(kind)
    return kind


def number_constant(text: str) -> Expression:
    """A number as Spark reads it: with a point it is a decimal, with an exponent a double."""
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), 0.0) and value:
            raise Unsupported(f"{text} is out of the range of DOUBLE", "write another number")
        return constant_of(value, "double")
    number = Decimal(text)
    if "." not in text:
        whole = int(text)
        for kind, bits in (("int", 31), ("bigint", 63)):
            if whole < 1 << bits:
                return Literal(whole, kind, str(whole))
    digits, exponent = number.as_tuple().digits, int(number.as_tuple().exponent)
    precision = max(len(digits), -exponent)
    if precision > 38:
        raise Unsupported(f"{text} has more than 38 digits", "write it with an exponent: 1e40")
    return constant_of(number, f"decimal({precision},{-exponent})")
