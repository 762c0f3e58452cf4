"""From sqlglot's nodes to the plain tree of sql/tree.py. What it means is a matter of sql/typing.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sqlglot import exp

from watersmeet.errors import ModelError
from watersmeet.model.types import canonical_type
from watersmeet.sql.site import Site, Span
from watersmeet.sql.tree import (
    Call,
    CastTo,
    ColumnName,
    Field,
    Interval,
    Null,
    Number,
    Parenthesized,
    Scalar,
    Text,
    Truth,
    Unknown,
    Where,
)

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
_PATTERNS = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}
_BINARY = {
    **_COMPARISONS,
    **_BITS,
    **{exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.DPipe: "||"},
    **_PATTERNS,
}
_UNARY = {exp.Not: "not", exp.BitwiseNot: "~", exp.Neg: "-"}
_CHAINED = {exp.And: "and", exp.Or: "or"}
_TESTS = (*_COMPARISONS, *_PATTERNS, *_CHAINED, exp.In, exp.Between, exp.Is, exp.Escape, exp.Not)
_DEEPEST = 60  # nodes below each other; Python and pickle bear some hundreds


class Reader:
    """Reads the expressions of one query; `locate` says where a node is."""

    def __init__(self, site: Site, locate: Callable[[Any], Span]) -> None:
        self._site = site
        self._locate = locate

    def read(self, node: Any, depth: int = 0) -> Scalar:
        if depth >= _DEEPEST:
            self._site.fail(
                self._locate(node),
                "this expression is nested too deeply",
                hint="split it into several conditions or outputs",
            )
        return self._read(node, depth + 1, partial(self._locate, node))

    def _read(self, node: Any, depth: int, where: Where) -> Scalar:
        kind = type(node)
        if kind is exp.Column:
            return ColumnName(tuple(part.name for part in node.parts), where=where)
        if kind is exp.Paren:
            return Parenthesized(self.read(node.this, depth), where=where)
        if kind in _CHAINED:
            return Call(_CHAINED[kind], tuple(self.read(each, depth) for each in _chain(node)), where=where)
        if kind in (exp.Like, exp.ILike, exp.Escape):
            return self._like(node, depth, where)
        if kind in _BINARY:
            self._check_precedence(node)
            return Call(_BINARY[kind], (self.read(node.this, depth), self.read(node.expression, depth)), where=where)
        if kind in _UNARY:
            return Call(_UNARY[kind], (self.read(node.this, depth),), where=where)
        return self._other(node, depth, where)

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
                self._site.fail(
                    self._locate(node),
                    "this needs parentheses: which operator comes first?",
                    hint="put the inner part in parentheses",
                )

    def _other(self, node: Any, depth: int, where: Where) -> Scalar:
        def call(name: str, *inner: Any) -> Scalar:
            return Call(name, tuple(self.read(each, depth) for each in inner if each is not None), where=where)

        match node:
            case exp.Null():
                return Null(where=where)
            case exp.Boolean():
                return Truth(bool(node.this), where=where)
            case exp.RawString():
                return Text(node.name, where=where)
            case exp.Literal():
                return Text(node.name, where=where) if node.is_string else Number(node.name, where=where)
            case exp.Interval():
                count = node.this
                if isinstance(count, exp.Literal) and count.is_string and isinstance(node.unit, exp.Var):
                    return Interval(count.name, node.unit.name, where=where)
                return Unknown("this INTERVAL", "write a number of one unit: INTERVAL '90' SECOND", where=where)
            case exp.Cast() if not any(each.args.get("nullable") for each in node.to.find_all(exp.DataType)):
                return CastTo(self.read(node.this, depth), _type(node.to), bool(node.args.get("safe")), where=where)
            case exp.Between() if not node.args.get("symmetric"):
                return call("between", node.this, node.args["low"], node.args["high"])
            case exp.In() if node.expressions and not isinstance(node.this, exp.Tuple):
                return call("in", node.this, *node.expressions)
            case exp.Is():
                word = {exp.Null: "is null", exp.Boolean: "is true"}.get(type(node.expression), "")
                if isinstance(node.expression, exp.Boolean) and not node.expression.this:
                    word = "is false"
                if word:
                    return call(word, node.this)
            case exp.Case():
                return self._case(node, depth, where)
            case exp.If() if node.args.get("false") is not None:
                return call("if", node.this, node.args.get("true"), node.args["false"])
            case exp.If():
                return Unknown("if with two arguments", "add what it gives otherwise", where=where)
            case exp.Bracket() if len(node.expressions) == 1:
                return call("item", node.this, node.expressions[0])
            case exp.Dot():
                return Field(self.read(node.this, depth), node.expression.name, where=where)
            case exp.Substring():
                return call("substring", node.this, node.args.get("start"), node.args.get("length"))
            case exp.Trim() if not node.args.get("expression") and not node.args.get("position"):
                return call("trim", node.this)
            case exp.StrPosition() if not node.args.get("position"):
                return call("locate", node.args["substr"], node.this)
            case exp.Extract():
                return Call(
                    "extract", (Text(node.this.name, where=where), self.read(node.expression, depth)), where=where
                )
            case exp.Anonymous():
                arguments = tuple(self.read(each, depth) for each in node.expressions)
                return Call(node.name, arguments, function=True, where=where)
        what = node.sql_name().lower() if isinstance(node, exp.Func) else node.key
        return Unknown(what, where=where)

    def _case(self, node: Any, depth: int, where: Where) -> Scalar:
        parts = []
        for branch in node.args["ifs"]:
            test = exp.EQ(this=node.this, expression=branch.this) if node.this else branch.this
            parts += [test, branch.args["true"]]
        if node.args.get("default") is not None:
            parts.append(node.args["default"])
        return Call("case", tuple(self.read(part, depth) for part in parts), where=where)

    def _like(self, node: Any, depth: int, where: Where) -> Scalar:
        escape: tuple[Scalar, ...] = ()
        inner = node
        if isinstance(node, exp.Escape):
            escape, inner = (self.read(node.expression, depth),), node.this
        self._check_precedence(inner)
        name, value = _BINARY[type(inner)], self.read(inner.this, depth)
        pattern = inner.expression
        negated = bool(inner.args.get("negate"))

        def matches(pattern: Any) -> Scalar:
            found = Call(name, (value, self.read(pattern, depth), *escape), where=where)
            return Call("not", (found,), where=where) if negated else found

        if not isinstance(pattern, exp.Any | exp.All):
            return matches(pattern)
        listed = {exp.Tuple: pattern.this.expressions, exp.Paren: [pattern.this.this]}.get(type(pattern.this))
        if not listed or escape:
            return Unknown("this LIKE", "write the patterns in parentheses, without ESCAPE", where=where)
        # In Spark, NOT LIKE ANY is true where some pattern does not match: NOT is about each of them.
        each = tuple(matches(one) for one in listed)
        chain = "or" if isinstance(pattern, exp.Any) else "and"
        found = each[0] if len(each) == 1 else Call(chain, each, where=where)
        return Parenthesized(found, where=where)


def _type(node: Any) -> str:
    """In Spark's spelling. A type that only other dialects have is left as it was written: it is rejected later."""
    written = str(node.meta.get("written", ""))
    if written and "<" not in written:
        try:
            canonical_type(written)
        except ModelError:
            return written
    return str(node.sql(dialect="spark", copy=False))


def _chain(node: Any) -> list[Any]:
    """The operands of a AND b AND c …, of which there may be thousands."""
    kind, found = type(node), []
    while type(node) is kind:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]
