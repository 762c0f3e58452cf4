"""A scalar expression of Spark's dialect, and how it becomes an `Expression` with Spark's meaning kept.

A `CAST` stays one that raises, as in Spark: the evaluation counts the rows on which it does and
continues with NULL. What sqlglot leaves different between the dialects is mended in `_mended`. Times are naive
UTC here: a TIMESTAMPTZ never leaves an expression, and the session that evaluates one has UTC as its time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from watersmeet.model.expression import Expression
from watersmeet.sql.adapter.expressions import Columns, expression_of
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Name, Reference, Scalar

_INSTANTS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_FLIPPED = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ}


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
        found = self.node.find_all(exp.Anonymous)
        return tuple(Name(node.name, self.locate(node)) for node in found if node.name.lower() not in _MENDED_CALLS)

    def call(self) -> tuple[Name, tuple[Scalar, ...]] | None:
        node = self.node.unnest()
        if not isinstance(node, exp.Anonymous):
            return None
        arguments = tuple(SparkScalar(argument, self.locate) for argument in node.expressions)
        return Name(node.name, self.locate(node)), arguments

    def conjuncts(self) -> tuple[Scalar, ...]:
        return tuple(SparkScalar(node, self.locate) for node in _conjuncts(self.node))

    def comparisons(self) -> tuple[Scalar, ...]:
        node = self.node.unnest()
        if not isinstance(node, exp.Between) or node.args.get("symmetric"):
            return (self,)
        ends = ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"]))
        return tuple(SparkScalar(kind(this=node.this.copy(), expression=end.copy()), self.locate) for kind, end in ends)

    def sides(self) -> tuple[Scalar, Scalar] | None:
        node = self.node.unnest()
        if not isinstance(node, exp.EQ):
            return None
        return SparkScalar(node.this, self.locate), SparkScalar(node.expression, self.locate)

    def expression(self, site: Site, resolve: Callable[[Reference], Expression]) -> Expression:
        root = self.node.unnest()
        if isinstance(root, exp.Column):  # as most keys are
            return resolve(self._reference(root))
        # Rewriting replaces nodes in their parent, so even the root needs one.
        holder = exp.Paren(this=root.copy())
        columns = Columns()
        for node in reversed(list(holder.this.walk())):
            column = isinstance(node, exp.Column)
            new = columns.mark(resolve(self._reference(node))) if column else _mended(node)
            if new is not node:
                node.replace(new)
        try:
            return expression_of(holder.this, columns)
        except SqlglotError as error:
            site.fail(
                self.span,
                "this expression cannot be evaluated",
                detail=str(error).splitlines()[0],
                hint="write it with other functions",
            )

    def _reference(self, column: Any) -> Reference:
        return Reference(tuple(part.name for part in column.parts), self.locate(column))


def _conjuncts(node: Any) -> Iterator[Any]:
    waiting = [node]
    while waiting:
        node = waiting.pop().unnest()
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        elif _is_tuple_equality(node):
            for left, right in zip(node.this.expressions, node.expression.expressions, strict=True):
                yield exp.EQ(this=left.copy(), expression=right.copy())
        else:
            yield node


def _is_tuple_equality(node: Any) -> bool:
    if not isinstance(node, exp.EQ):
        return False
    left, right = node.this, node.expression
    both = isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple)
    return both and len(left.expressions) == len(right.expressions)


def _try_cast(node: Any, kind: str) -> Any:
    return exp.TryCast(this=node, to=exp.DataType.build(kind))


def _call(name: str, *arguments: Any) -> Any:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _null_test(node: Any, negated: bool) -> Any:
    test = exp.Paren(this=exp.Is(this=exp.Paren(this=node.expressions[0]), expression=exp.Null()))
    return exp.Not(this=test) if negated else test


def _positive_remainder(node: Any) -> Any:
    value, by = (exp.Paren(this=argument) for argument in node.expressions)
    inner = exp.Paren(this=exp.Add(this=exp.Mod(this=value, expression=by.copy()), expression=by.copy()))
    return exp.Paren(this=exp.Mod(this=inner, expression=by))


# Functions that sqlglot passes on by name although DuckDB lacks them or counts differently, with their arity.
_MENDED_CALLS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "isnull": (1, lambda node: _null_test(node, False)),
    "isnotnull": (1, lambda node: _null_test(node, True)),
    "pmod": (2, _positive_remainder),
    "weekday": (1, lambda node: _minus_one(_call("ISODOW", node.expressions[0]))),
    "timestamp_micros": (1, lambda node: _call("MAKE_TIMESTAMP", node.expressions[0])),
    "timestamp_millis": (1, lambda node: _call("MAKE_TIMESTAMP", _times(node.expressions[0], 1_000))),
    "timestamp_seconds": (1, lambda node: _call("MAKE_TIMESTAMP", _times(node.expressions[0], 1_000_000))),
}


def _minus_one(node: Any) -> Any:
    return exp.Paren(this=exp.Sub(this=node, expression=exp.Literal.number(1)))


def _times(node: Any, factor: int) -> Any:
    # Seconds of our time fit into 32 bits, their microseconds do not.
    return exp.Mul(this=_try_cast(node, "BIGINT"), expression=exp.Literal.number(factor))


def _mended(node: Any) -> Any:
    """The node, or another one with the meaning that Spark gives it; its children are mended already."""
    if isinstance(node, exp.DataType) and node.this in _INSTANTS and not isinstance(node.parent, exp.Cast):
        return exp.DataType.build("TIMESTAMP")
    if isinstance(node, exp.Cast):
        # sqlglot reads Spark's CAST as the forgiving one; only TRY_CAST is marked as safe.
        kind = exp.TryCast if node.args.get("safe") else exp.Cast
        if node.to.this in _INSTANTS:
            # Only a TIMESTAMPTZ heeds an offset in a string such as '2024-01-01 02:00:00+02'.
            instant = kind(this=node.this.copy(), to=exp.DataType.build("TIMESTAMPTZ"))
            return kind(this=instant, to=exp.DataType.build("TIMESTAMP"))
        return kind(this=node.this.copy(), to=node.to.copy())
    if isinstance(node, exp.Anonymous):
        arity, mend = _MENDED_CALLS.get(node.name.lower(), (-1, None))
        return mend(node.copy()) if mend and len(node.expressions) == arity else node
    if isinstance(node, exp.TsOrDsAdd | exp.AddMonths | exp.DateTrunc | exp.DateFromUnixDate):
        return _try_cast(node.copy(), "DATE")  # DuckDB answers a TIMESTAMP
    if isinstance(node, exp.Floor | exp.Ceil) and not node.args.get("decimals"):
        return _try_cast(node.copy(), "BIGINT")
    if isinstance(node, exp.DayOfWeek):  # Sunday is 1 in Spark and 0 in DuckDB
        return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
    if isinstance(node, exp.StrToUnix):
        seconds = _call("EPOCH", _try_cast(node.this.copy(), "TIMESTAMP"))
        return _try_cast(exp.Floor(this=seconds), "BIGINT")
    if isinstance(node, exp.UnixToStr):
        time = _call("MAKE_TIMESTAMP", _times(node.this.copy(), 1_000_000))
        return exp.TimeToStr(this=time, format=node.args["format"].copy())
    if isinstance(node, exp.Like | exp.ILike) and not isinstance(node.parent, exp.Escape):
        pattern = node.expression
        if not isinstance(pattern, exp.Literal | exp.Any | exp.All) or "\\" in pattern.name:
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
    if type(node) in _FLIPPED and isinstance(node.this, exp.Literal) and not isinstance(node.expression, exp.Literal):
        return _FLIPPED[type(node)](this=node.expression.copy(), expression=node.this.copy())
    return node


def is_known_function(name: str) -> bool:
    """Whether the parser has an idea of a function of this name, or does not take it for a function at all."""
    try:
        return not isinstance(sqlglot.parse_one(f"{name}(x)", read="spark"), exp.Anonymous)
    except SqlglotError:
        return True
