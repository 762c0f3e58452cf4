"""Aggregates over a join as partials of which every argument reads one alias.

A SUM may also be one of products, and of decimals also of sums and differences of these, each of which is a partial:

    SUM(a.x * b.y - c.z)                      SUM(a.x * b.y) - SUM(c.z), of results in which all of them are not NULL
    SUM(CASE WHEN p THEN e ELSE 0 END)        SUM(e) FILTER (WHERE p); 0 instead of NULL if there are other results
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.model import ColumnRef, Expression
from watersmeet.model.expression import Cast, all_of
from watersmeet.model.forms import JoinPartial
from watersmeet.sql.functions.rendering import sql
from watersmeet.sql.lower.combine import FACTORS, as_type, combined, plain_name, stored_sum
from watersmeet.sql.lower.join_conditions import FactorizedJoin
from watersmeet.sql.lower.lowering import DoesNotFit
from watersmeet.sql.lower.slices import argument_of
from watersmeet.sql.spark_types import FLOATS, is_decimal, shape
from watersmeet.sql.tree import Aggregate, Call, Null, Number, Parenthesized, Scalar, conjuncts, without_parentheses

Parts = tuple[tuple[int, Expression], ...]  # expressions, each with the position of the member that it reads


@dataclass(frozen=True)
class _Term:
    """A product that is added or subtracted, with its type in Spark."""

    sign: str
    factors: Parts
    type: str


class JoinPartials:
    """The partials of one query, each once."""

    def __init__(self, join: FactorizedJoin, position: dict[str, int]) -> None:
        self._join = join
        self._position = position
        self.listed: list[JoinPartial] = []

    def add(self, function: str, arguments: Parts, filters: Parts, stored: str) -> ColumnRef:
        partial = JoinPartial(function, arguments, filters, stored)
        if partial not in self.listed:
            self.listed.append(partial)
        ((name, kind),) = partial.columns(self.listed.index(partial))
        return ColumnRef(name, kind)

    def aggregate(self, node: Aggregate) -> Expression:
        kind = self._join.rows.types.aggregate(node).type
        value, condition = argument_of(node)
        name = "count" if node.name == "count_if" else plain_name(node.name)
        if name not in FACTORS:
            raise DoesNotFit(f"{node.name} is not pushed below a join")
        tests = list(conjuncts(condition)) if condition is not None else []
        if value is None:
            return self.add("count", (), self._filters(tests), "bigint")
        if name == "sum" and len(self._join.aliases_of(value)) > 1:
            return self._sum(without_parentheses(value), kind, tests)
        at, argument = self._one(value, node.name)

        def add(function: str, of: Expression | None, stored: str) -> Expression:
            return self.add(function, ((at, of or argument),), self._filters(tests), stored)

        return combined(name, argument, kind, add)

    def _sum(self, value: Scalar, kind: str, tests: list[Scalar]) -> Expression:
        if isinstance(value, Call) and value.name == "case":
            return self._chosen(value, kind, tests)
        signed = list(_terms(value))
        terms = [_Term(sign, self._product(term), self._join.rows.types.value(term).type) for sign, term in signed]
        whole = self._join.rows.types.value(value).type
        if len(terms) == 1 and (is_decimal(whole) or whole in FLOATS or len(terms[0].factors) == 1):
            return as_type(self.add("sum", terms[0].factors, self._filters(tests), stored_sum(whole)), kind)
        if not is_decimal(whole) or not all(is_decimal(term.type) for term in terms):
            raise DoesNotFit("an argument of sum reads several aliases")
        if stored_sum(whole) != f"decimal(38,{_scale(terms)})":
            raise DoesNotFit("an argument of sum is rounded")
        return self._difference(terms, kind, tests)

    def _product(self, node: Scalar) -> Parts:
        """The factors of a product, one for each alias that it reads."""
        found: dict[str, Scalar] = {}
        for factor in _factors(node):
            alias = self._join.alias_of(factor, "an argument of sum")
            whole = Parenthesized(factor)
            found[alias] = Call("*", (found[alias], whole)) if alias in found else whole
        return tuple((self._position[alias], self._join.rows.value(factor)) for alias, factor in found.items())

    def _difference(self, terms: list[_Term], kind: str, tests: list[Scalar]) -> Expression:
        """Sums of products, added up."""
        present: dict[int, dict[Expression, None]] = {}
        for term in terms:
            for at, factor in term.factors:
                present.setdefault(at, {})[sql("({0} IS NOT NULL)", "boolean", factor)] = None
        filters = self._filters(tests, {at: list(found) for at, found in present.items()})
        wide = f"DECIMAL(38, {_scale(terms)})"
        text = "".join(f" {term.sign} CAST({{{at}}} AS {wide})" for at, term in enumerate(terms))
        sums = [self.add("sum", term.factors, filters, stored_sum(term.type)) for term in terms]
        return Cast((sql(f"(CAST(0 AS {wide}){text})", f"decimal(38,{_scale(terms)})", *sums, raises=True),), kind)

    def _chosen(self, value: Call, kind: str, tests: list[Scalar]) -> Expression:
        """CASE WHEN … THEN … [ELSE 0] END."""
        test, chosen, *otherwise = value.arguments
        if len(otherwise) > 1 or (otherwise and without_parentheses(otherwise[0]) not in (Number("0"), Null())):
            raise DoesNotFit("an argument of sum is a CASE over several aliases with other branches than 0")
        also = [*tests, *conjuncts(test)]
        if len(self._join.aliases_of(chosen)) > 1:
            found = self._sum(without_parentheses(chosen), kind, also)
        else:
            at, argument = self._one(chosen, "sum")
            found = as_type(self.add("sum", ((at, argument),), self._filters(also), stored_sum(argument.type)), kind)
        if not otherwise or isinstance(without_parentheses(otherwise[0]), Null):
            return found
        everything, those = (self.add("count", (), self._filters(each), "bigint") for each in (tests, also))
        return sql("CASE WHEN {1} > {2} THEN coalesce({0}, 0) ELSE {0} END", kind, found, everything, those)

    def _one(self, node: Scalar, function: str) -> tuple[int, Expression]:
        """An argument that reads one alias."""
        alias = self._join.alias_of(node, f"an argument of {function}")
        return self._position[alias], self._join.rows.value(node)

    def _filters(self, tests: list[Scalar], also: dict[int, list[Expression]] | None = None) -> Parts:
        found: dict[int, list[Expression]] = {}
        for test in tests:
            at = self._position[self._join.alias_of(test, "FILTER or CASE")]
            found.setdefault(at, []).append(self._join.rows.condition(test))
        for at, listed in (also or {}).items():
            found.setdefault(at, []).extend(listed)
        return tuple((at, all_of(listed)) for at, listed in sorted(found.items()))


def _terms(node: Scalar, sign: str = "+") -> Iterator[tuple[str, Scalar]]:
    node = without_parentheses(node)
    if isinstance(node, Call) and node.name in ("+", "-") and len(node.arguments) > 1:
        left, right = node.arguments
        yield from _terms(left, sign)
        yield from _terms(right, sign if node.name == "+" else {"+": "-", "-": "+"}[sign])
    else:
        yield sign, node


def _scale(terms: list[_Term]) -> int:
    return max(shape(term.type)[1] for term in terms)


def _factors(node: Scalar) -> Iterator[Scalar]:
    node = without_parentheses(node)
    if isinstance(node, Call) and node.name == "*" and not node.function:
        for each in node.arguments:
            yield from _factors(each)
    else:
        yield node
