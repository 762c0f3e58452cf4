"""`[NOT] EXISTS (SELECT …)` and `[NOT] IN (SELECT …)` between the ANDs of a WHERE, as tables of semi and anti joins.

`x NOT IN (SELECT y …)` is not true for any x if some y is NULL, nor for an x that is NULL if there is any y: rows that
are not known to differ are partners.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlglot import exp

from watersmeet.sql.adapter.scalar import SparkScalar, conjuncts_of
from watersmeet.sql.site import Span
from watersmeet.sql.syntax import Name, Table

_HARMLESS = ("distinct",)  # of a subquery of which only matters whether it has a row


@dataclass(frozen=True)
class Nested:
    """A condition with a subquery."""

    select: Any
    kind: str  # semi or anti
    written: str
    compared: Any = None  # of IN, what is looked for

    def condition(self) -> Any:
        """What makes a row of the subquery a partner; None: nothing but its being there."""
        where = self.select.args.get("where")
        found = where.this if where else None
        if self.compared is None:
            return found
        equal: Any = exp.EQ(this=self.compared, expression=self.select.expressions[0].unalias())
        if self.kind == "anti":
            equal = exp.Anonymous(this="coalesce", expressions=[equal, exp.true()])
        return exp.And(this=found, expression=equal) if found is not None else equal


def nested_in(where: Any) -> tuple[list[Nested], Any]:
    """The conditions with subqueries, and the rest of a WHERE; None where nothing is left."""
    found: list[Nested] = []
    rest = None
    for conjunct in conjuncts_of(where):
        nested = _nested(conjunct)
        if nested is not None:
            found.append(nested)
        else:
            rest = conjunct if rest is None else exp.And(this=rest, expression=conjunct)
    return (found, rest) if found else ([], where)


def _nested(node: Any) -> Nested | None:
    negated = isinstance(node, exp.Not)
    inner = node.this.unnest() if negated else node
    kind, no = ("anti", "NOT ") if negated else ("semi", "")
    if isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query):
        found: Any = inner.this.unnest()
        return Nested(found, kind, f"{no}EXISTS") if isinstance(found, exp.Select) else None
    query = inner.args.get("query") if isinstance(inner, exp.In) else None
    select = query.unnest() if query is not None else None
    return Nested(select, kind, f"{no}IN", inner.this) if isinstance(select, exp.Select) else None


class Tables(Protocol):
    """What reads the tables of a SELECT: see select.py."""

    def span(self, node: Any) -> Span: ...

    def table(self, node: Any) -> Table | None: ...

    def clauses(self, node: Any, harmless: Collection[str] = ()) -> None: ...

    def scalar(self, node: Any) -> SparkScalar: ...

    def reject(self, what: str, written: str, span: Span) -> None: ...


def nested_tables(reader: Tables, where: Any) -> tuple[list[Table], Any]:
    """The tables of conditions with subqueries, joined as these say, and the rest of the WHERE."""
    found, rest = nested_in(where)
    return [table for nested in found for table in _table(reader, nested)], rest


def _table(reader: Tables, nested: Nested) -> Iterator[Table]:
    select, region = nested.select, reader.span(nested.select)
    reader.clauses(select, _HARMLESS)
    from_, joins = select.args.get("from_"), select.args.get("joins") or []
    if from_ is None:
        reader.reject("subquery", nested.written, region)
        return
    if joins:
        reader.reject("joined subquery", nested.written, reader.span(joins[0].this))
        return
    if nested.compared is not None and (len(select.expressions) != 1 or select.is_star):
        reader.reject("columns of IN", nested.written, region)
        return
    selected = [reader.scalar(item.unalias()) for item in select.expressions if not item.is_star]
    select.args.get("distinct")  # says nothing about whether there is a row
    table = reader.table(from_.this)
    if table is not None:
        on = nested.condition()
        yield replace(
            table,
            on=reader.scalar(on) if on is not None else None,
            kind=nested.kind,
            written=Name(nested.written, region),
            region=region,
            nested=True,
            selected=tuple(selected),
        )
