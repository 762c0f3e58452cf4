"""Any windowed query as Spark SQL over the rows of a window. Nothing in it is user text: all is written anew, with
quoted names.

What raises in Spark (ANSI) is written in the form that is NULL instead, where Spark has one: try_add, TRY_CAST. The two
ends of the window are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from watersmeet.model import ColumnRef, Output
from watersmeet.model.forms import View, WindowSql
from watersmeet.model.types import canonical_type
from watersmeet.sql import tree
from watersmeet.sql.lower.lowering import Lowering
from watersmeet.sql.lower.relational_text import Named, RelationalText, direction, is_constant, views_of
from watersmeet.sql.resolve.resolved import Bound, Nested, ResolvedQuery, ResolvedSelect, WindowEnd
from watersmeet.sql.resolve.typing import SparkTyping
from watersmeet.sql.site import in_backticks
from watersmeet.sql.spark_types import nested, wider
from watersmeet.sql.syntax import WITH_UNIT
from watersmeet.sql.tree import Aggregate, Call, Over, Scalar

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_OPERATORS = {
    **{name: f"({{0}} {name} {{1}})" for name in (*_COMPARISONS, "&", "|", "^", "||")},
    **{name: f"({{0}} {name.upper()})" for name in ("is null", "is not null", "is true", "is false")},
    "not": "(NOT {0})",
    "~": "(~{0})",
    "between": "({0} BETWEEN {1} AND {2})",
    "div": "CASE WHEN {1} <> 0 THEN {0} div {1} END",
}
_PATTERNS = ("like", "ilike", "rlike")
_TRIED = {
    **{"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod", "mod": "try_mod"},
    **{"element_at": "try_element_at", "sum": "try_sum", "avg": "try_avg", "mean": "try_avg", "any": "bool_or"},
}


def window_sql(lowering: Lowering, query: ResolvedQuery) -> WindowSql:
    """The query as Spark SQL over one view for each stream, with the columns that it reads."""
    views = views_of(query)
    text = _Writer(views, lowering.resolver.typing).query(query)
    if "${" in text:  # literals have none
        site = lowering.site
        site.fail((0, len(site.text)), "a name with ${ is not supported where Spark computes windows", hint="rename it")
    outputs = tuple(Output(each.name, each.type, ColumnRef(each.name, each.type)) for each in query.outputs)
    return WindowSql(text, views, outputs)


class _Writer(RelationalText):
    joins: ClassVar[Mapping[str, str]] = {
        **{"cross": "CROSS JOIN", "inner": "INNER JOIN", "left": "LEFT OUTER JOIN", "right": "RIGHT OUTER JOIN"},
        **{"full": "FULL OUTER JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"},
    }

    def __init__(self, views: Sequence[View], typing: SparkTyping) -> None:
        super().__init__(views)
        self._typing = typing

    # Queries -------------------------------------------------------------------------------------

    def quoted(self, name: str) -> str:
        return in_backticks(name)

    def condition(self, node: Scalar) -> str:
        return self.value(node)

    def select(self, query: ResolvedSelect, more: Named = ()) -> str:
        named = [(output.label, value) for output, value in zip(query.outputs, query.values, strict=True)]
        listed = ", ".join(f"{self.value(value)} AS {in_backticks(name)}" for name, value in (*named, *more))
        text = f"SELECT {'DISTINCT ' if query.distinct else ''}{listed}"
        if query.source is not None:
            text += f" FROM {self.source(query.source)}"
        if query.where is not None:
            text += f" WHERE {self.value(query.where)}"
        if query.group is not None:
            keys = [self.value(key) for key in query.group if not is_constant(key)]
            text += f" GROUP BY {', '.join(keys or [_end(False)])}"
        if query.having is not None:
            text += f" HAVING {self.value(query.having)}"
        return text

    # Scalars -------------------------------------------------------------------------------------

    def value(self, node: Scalar) -> str:
        match node:
            case Bound():
                return (
                    f"{in_backticks(node.relation)}.{in_backticks(node.column)}"
                    if node.relation
                    else in_backticks(node.column)
                )
            case WindowEnd():
                return _end(node.end)
            case Call():
                return self._call(node)
            case Aggregate():
                return self._aggregate(node)
            case Over():
                return self._over(node)
            case Nested():
                return self._nested(node)
            case tree.Parenthesized():
                return self.value(node.inner)
            case tree.CastTo():
                return f"TRY_CAST({self.value(node.value)} AS {canonical_type(node.type)})"
            case tree.Field():
                return f"{self.value(node.value)}.{in_backticks(node.name)}"
        return _constant(node)

    def _call(self, node: Call) -> str:
        name = node.name.lower()
        first, *others = node.arguments or (tree.Null(),)
        if name == "-" and not others:
            return f"(-{self.value(first)})"
        written = [self.value(each) for each in node.arguments]
        if name == "item":
            is_array = nested(self._typing.typed(first).type)[0] == "array"
            return f"{'get' if is_array else 'try_element_at'}({', '.join(written)})"
        if name in _TRIED:
            return f"{_TRIED[name]}({', '.join(written)})"
        if node.function:
            if name in WITH_UNIT and isinstance(first, tree.Text) and first.value.isalpha():
                written[0] = first.value.upper()
            return f"{name}({', '.join(written)})"
        return _operator(name, self._converted(node, written) if name in _COMPARISONS else written, node)

    def _converted(self, node: Call, written: list[str]) -> list[str]:
        """Two sides of a comparison: Spark converts a string to the type of the other side, and raises if it cannot."""
        kinds = [self._typing.typed(each).type for each in node.arguments]
        common = wider(*kinds)
        if kinds.count("string") != 1 or common is None or common == "string":
            return written
        return [
            f"TRY_CAST({text} AS {common})" if kind == "string" else text
            for text, kind in zip(written, kinds, strict=True)
        ]

    def _aggregate(self, node: Aggregate) -> str:
        name = _TRIED.get(node.name, node.name)
        if node.name in ("min_by", "max_by"):  # rows that tie are ordered by the value itself
            value, by = (self.value(each) for each in node.arguments)
            listed = f"{value}, CASE WHEN {by} IS NOT NULL THEN struct({by}, {value}) END"
        else:
            listed = ", ".join("*" if isinstance(each, tree.Star) else self.value(each) for each in node.arguments)
        text = f"{name}({'DISTINCT ' if node.distinct else ''}{listed})"
        return f"{text} FILTER (WHERE {self.value(node.filter)})" if node.filter is not None else text

    def _over(self, node: Over) -> str:
        called = self._aggregate(Aggregate(node.name, node.arguments, False, node.filter))
        parts = []
        if node.partition:
            parts.append(f"PARTITION BY {', '.join(self.value(each) for each in node.partition)}")
        if node.order:
            keys = [direction(self.value(each.value), each) for each in node.order]
            parts.append(f"ORDER BY {', '.join(keys)}")
        return f"{called} OVER ({' '.join(parts)})"

    def _nested(self, node: Nested) -> str:
        query = self.query(node.query)
        if node.kind == "exists":
            return f"EXISTS ({query})"
        return f"({self.value(node.value)} IN ({query}))" if node.value is not None else f"({query})"


def _operator(name: str, written: list[str], node: Call) -> str:
    first, *others = written
    if name in _OPERATORS:
        return _OPERATORS[name].format(*written)
    if name in _PATTERNS:
        escape = f" ESCAPE {others[1]}" if others[1:] else ""
        return f"({first} {name.upper()} {others[0]}{escape})"
    if name in ("and", "or"):
        return f"({f' {name.upper()} '.join(written)})"
    if name == "in":
        return f"({first} IN ({', '.join(others)}))"
    if name == "extract":
        unit = node.arguments[0]
        assert isinstance(unit, tree.Text)
        assert unit.value.isalpha()
        return f"extract({unit.value} FROM {others[0]})"
    if name == "case":
        pairs = zip(written[: len(written) // 2 * 2 : 2], written[1::2], strict=True)
        branches = " ".join(f"WHEN {test} THEN {value}" for test, value in pairs)
        return f"CASE {branches}{f' ELSE {written[-1]}' if len(written) % 2 else ''} END"
    return f"{name}({', '.join(written)})"  # which the grammar has other words for: if, substring, trim, locate


def _constant(node: Scalar) -> str:
    match node:
        case tree.Number():
            return node.text
        case tree.Text():
            return _string(node.value)
        case tree.Truth():
            return "TRUE" if node.value else "FALSE"
        case tree.Null():
            return "NULL"
        case tree.Interval():
            return f"INTERVAL '{node.count}' {node.unit.upper()}"
    raise AssertionError(node)


def _end(end: bool) -> str:
    return f"timestamp_micros(:window_{'end' if end else 'start'})"


def _string(value: str) -> str:
    # Spark replaces ${name} by the value of a setting before it parses a text, also inside of literals.
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
