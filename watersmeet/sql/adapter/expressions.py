"""From sqlglot's tree to a typed `Expression`, by the closed table of sql/functions/.

Every node becomes a call of an entry of the table, or a constant, a column, a cast. A node that is not known here, or a
function that is not in the table, is rejected at its place.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp

from watersmeet.errors import ModelError
from watersmeet.model.expression import Expression, Literal, Operation
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
from watersmeet.sql.site import Site, Span
from watersmeet.sql.spark_types import VOID, Unsupported

_COMPARISONS = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
}
_BITS = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_BINARY = {
    **_COMPARISONS,
    **_BITS,
    **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.DPipe: "||"},
    **{exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"},
}
_UNARY = {exp.Not: "not", exp.BitwiseNot: "~"}
_CHAINED = {exp.And: "and", exp.Or: "or"}
_TESTS = (
    *_COMPARISONS,
    exp.In,
    exp.Between,
    exp.Is,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.Escape,
    exp.Not,
    exp.And,
    exp.Or,
)
_NO_CALLS = ("between", "in", "and", "or", "not", "case", "item", "div")  # which the grammar has other words for
_DEEPEST = 60  # nodes below each other; Python and pickle bear some hundreds
_LONGEST = 200_000  # characters of DuckDB text


class Reader:
    """Reads the expressions of one query. `resolve` says what a column stands for, `locate` where a node is."""

    def __init__(self, site: Site, locate: Callable[[Any], Span], resolve: Callable[[Any], Expression]) -> None:
        self._site = site
        self._locate = locate
        self._resolve = resolve

    def read(self, node: Any, depth: int = 0) -> Expression:
        if isinstance(node, exp.Column):
            return self._resolve(node)
        if depth >= _DEEPEST:
            self._fail(node, "this expression is nested too deeply", "split it into several conditions or outputs")
        try:
            return self._read(node, depth + 1)
        except Unsupported as error:
            self._fail(node, error.problem, error.hint)

    def whole(self, node: Any) -> Expression:
        found = self.read(node)
        if len(found.text) > _LONGEST:
            self._fail(node, "this expression is too long", "split it into several conditions or outputs")
        return found

    def _fail(self, node: Any, problem: str, hint: str) -> NoReturn:
        self._site.fail(self._locate(node), problem, hint=hint)

    def _read(self, node: Any, depth: int) -> Expression:
        kind = type(node)
        if kind is exp.Paren:
            inner = self.read(node.this, depth)
            return inner if isinstance(inner, Literal) else Operation("()", (inner,), inner.type)
        if kind in _CHAINED:
            return build_call(_CHAINED[kind], [self.read(each, depth) for each in _chain(node)])
        if kind in (exp.Like, exp.ILike, exp.Escape):
            return self._like(node, depth)
        if kind in _BINARY:
            self._check_precedence(node)
            return build_call(_BINARY[kind], [self.read(node.this, depth), self.read(node.expression, depth)])
        if kind in _UNARY:
            return build_call(_UNARY[kind], [self.read(node.this, depth)])
        if kind is exp.Neg:
            inner = self.read(node.this, depth)
            return (
                negated(inner)
                if isinstance(inner, Literal) and isinstance(node.this, exp.Literal)
                else build_call("-", [inner])
            )
        return self._constant(node) or self._other(node, depth)

    def _check_precedence(self, node: Any) -> None:
        """Spark binds some operators otherwise than the parser does: only parentheses make them mean the same."""
        kind = type(node)
        for operand in (node.this, node.expression):
            inner = type(operand)
            mixed = (kind in _BITS and inner in _BITS and inner is not kind) or (
                exp.DPipe in (kind, inner)
                and kind is not inner
                and inner in _BINARY
                and inner not in _COMPARISONS
                and kind not in _COMPARISONS
            )
            if mixed or inner in _TESTS:
                self._fail(
                    node, "this needs parentheses: which operator comes first?", "put the inner part in parentheses"
                )

    def _constant(self, node: Any) -> Expression | None:
        if isinstance(node, exp.Null):
            return null(VOID)
        if isinstance(node, exp.Boolean):
            return constant_of(bool(node.this), "boolean")
        if isinstance(node, exp.RawString):
            return constant_of(node.name, "string")
        if isinstance(node, exp.Interval):
            if not isinstance(node.this, exp.Literal) or not isinstance(node.unit, exp.Var):
                raise Unsupported("this INTERVAL is not supported", "write a number of one unit: INTERVAL '90' SECOND")
            return interval_constant(node.this.name, node.unit.name)
        if isinstance(node, exp.Literal):
            return constant_of(node.name, "string") if node.is_string else _number(node.name)
        return None

    def _other(self, node: Any, depth: int) -> Expression:
        def read(*inner: Any) -> list[Expression]:
            return [self.read(each, depth) for each in inner if each is not None]

        match node:
            case exp.Cast():
                return self._cast(node, depth)
            case exp.Between() if not node.args.get("symmetric"):
                found = build_call("between", read(node.this, node.args["low"], node.args["high"]))
                return Operation("()", (found,), "boolean") if found.type == "boolean" and _is_and(found) else found
            case exp.In() if node.expressions and not isinstance(node.this, exp.Tuple):
                return build_call("in", read(node.this, *node.expressions))
            case exp.Is():
                word = {exp.Null: "is null", exp.Boolean: "is true"}.get(type(node.expression), "")
                if isinstance(node.expression, exp.Boolean) and not node.expression.this:
                    word = "is false"
                if word:
                    return build_call(word, read(node.this))
            case exp.Case():
                return self._case(node, depth)
            case exp.If():
                return build_call("if", read(node.this, node.args.get("true"), node.args.get("false") or exp.Null()))
            case exp.Bracket() if len(node.expressions) == 1:
                return build_call("item", read(node.this, node.expressions[0]))
            case exp.Dot():
                return field(self.read(node.this, depth), node.expression.name)
            case exp.Substring():
                return build_call("substring", read(node.this, node.args.get("start"), node.args.get("length")))
            case exp.Trim() if not node.args.get("expression") and not node.args.get("position"):
                return build_call("trim", read(node.this))
            case exp.StrPosition() if not node.args.get("position"):
                return build_call("locate", read(node.args["substr"], node.this))
            case exp.Extract():
                return build_call("extract", [constant_of(node.this.name, "string"), *read(node.expression)])
            case exp.Anonymous():
                return self._call(node, depth)
        what = node.sql_name().lower() if isinstance(node, exp.Func) else node.key
        raise Unsupported(f"{what} is not supported", "docs/semantics.md lists what is")

    def _call(self, node: Any, depth: int) -> Expression:
        name = node.name.lower()
        proven, by_spark = name in TABLE and name not in _NO_CALLS, name in BY_SPARK
        if not proven and not by_spark:
            problem, hint = reason(node.name)
            raise Unsupported(problem, hint)
        arguments = [self.read(each, depth) for each in node.expressions]
        if not proven:
            return spark_call(name, arguments)
        try:
            return build_call(name, arguments)
        except Unsupported:
            if not by_spark:
                raise
            return spark_call(name, arguments)

    def _cast(self, node: Any, depth: int) -> Expression:
        try:
            kind = canonical_type(node.to.sql(dialect="spark"))
        except ModelError as error:
            raise Unsupported(error.problem, error.hint) from None
        check_target(kind)
        value = self.read(node.this, depth)
        return try_cast(value, kind) if node.args.get("safe") else cast(value, kind)

    def _case(self, node: Any, depth: int) -> Expression:
        parts = []
        for branch in node.args["ifs"]:
            test = exp.EQ(this=node.this.copy(), expression=branch.this.copy()) if node.this else branch.this
            parts += [test, branch.args["true"]]
        if node.args.get("default") is not None:
            parts.append(node.args["default"])
        return build_call("case", [self.read(part, depth) for part in parts])

    def _like(self, node: Any, depth: int) -> Expression:
        escape: list[Expression] = []
        inner = node
        if isinstance(node, exp.Escape):
            escape, inner = [self.read(node.expression, depth)], node.this
        self._check_precedence(inner)
        name, value = _BINARY[type(inner)], self.read(inner.this, depth)
        pattern = inner.expression
        if isinstance(pattern, exp.Any | exp.All):
            listed = pattern.this.expressions if isinstance(pattern.this, exp.Tuple) else [pattern.this.this]
            each = [build_call(name, [value, self.read(one, depth), *escape]) for one in listed]
            chain = "or" if isinstance(pattern, exp.Any) else "and"
            found = each[0] if len(each) == 1 else build_call(chain, each)
            found = Operation("()", (found,), "boolean")
        else:
            found = build_call(name, [value, self.read(pattern, depth), *escape])
        return build_call("not", [found]) if inner.args.get("negate") else found


def _is_and(found: Expression) -> bool:
    return isinstance(found, Operation) and found.operator == "AND"


def _chain(node: Any) -> list[Any]:
    """The operands of a AND b AND c …, of which there may be thousands."""
    kind, found = type(node), []
    while type(node) is kind:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


def _number(text: str) -> Expression:
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
