"""One SELECT, parsed and turned into plain values; what is not supported is collected with its position."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from sqlglot import exp

from watersmeet.sql.adapter.fields import check_all_read
from watersmeet.sql.adapter.joins import join_fields
from watersmeet.sql.adapter.parsing import name_units, parsed, unsupported_kind
from watersmeet.sql.adapter.places import Places
from watersmeet.sql.adapter.scalar import SparkScalar
from watersmeet.sql.adapter.subqueries import nested_tables
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Item, Name, Select, Table, Token, UnsupportedClause

# Clauses by sqlglot's name for them, with the words that open each.
CLAUSES = {
    **{"with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY"},
    **{"windows": "WINDOW", "order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "limit": "LIMIT"},
    **{"distribute": "DISTRIBUTE BY", "offset": "OFFSET", "laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"},
    **{"pivots": "PIVOT", "into": "INTO", "locks": "FOR", "version": "AS OF"},
}
_INNER = ("inner", "cross", "comma")
_LEAVES = ("left", "right", "semi", "anti")
_PLAIN_ARGS = {"expressions", "from_", "joins", "where", "hint", "this", "alias", "db", "catalog"}


def parse_select(site: Site, text: str, tokens: tuple[Token, ...]) -> Select:
    """Parse one SELECT whose windows are blanked in `text`; what is not supported is in `unsupported`."""
    reader, root = _Reader(tokens, len(text)), parsed(site, text, tokens)
    found = reader.select(root)
    return replace(found, check_all_read=partial(check_all_read, site, root, reader, CLAUSES))


class _Reader(Places):
    """Turns one sqlglot tree into a Select."""

    def __init__(self, tokens: tuple[Token, ...], length: int) -> None:
        super().__init__(tokens, length)
        self.unsupported: list[UnsupportedClause] = []

    def select(self, root: Any) -> Select:
        if not isinstance(root, exp.Select):
            word = self.tokens[0].text.upper() if self.tokens else "nothing"
            what = "set operation" if isinstance(root, exp.SetOperation) else "statement"
            if isinstance(root, exp.SetOperation):
                word = next((t.text.upper() for t in self.tokens if t.is_word("UNION", "INTERSECT", "MINUS")), "EXCEPT")
            return Select((), (), None, (UnsupportedClause(what, word, self.word(word)),))
        self.clauses(root)
        from_ = root.args.get("from_")
        tables = [*self.first(from_.this), *self.joined(root.args.get("joins"))] if from_ else []
        where = root.args.get("where") if from_ else None
        nested, rest = nested_tables(self, where.this) if where else ([], None)
        items = [self.item(node) for node in root.expressions]
        selected = Select(
            tuple(item for item in items if item),
            (*tables, *nested),
            self.scalar(rest) if rest is not None else None,
            tuple(sorted(self.unsupported, key=lambda found: (found.span[0], -found.span[1]))),
        )
        return selected

    def reject(self, what: str, written: str, span: Span) -> None:
        self.unsupported.append(UnsupportedClause(what, written, span))

    def clauses(self, node: Any, harmless: Collection[str] = ()) -> None:
        for arg, value in node.args.items():
            if value and arg not in _PLAIN_ARGS and arg not in harmless and isinstance(value, exp.Expression | list):
                words = CLAUSES.get(arg, arg.upper().strip("_"))
                self.reject("clause", words, self.word(words))

    def first(self, node: Any) -> list[Table]:
        """The first table of a FROM: also a join in parentheses, since joins are read from left to right anyway."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery) and not _named(node):
            joins = node.this.args.get("joins") or []
            for comma in (join for join in joins if join_fields(join).kind == "comma"):  # as Spark's grammar
                self.reject("comma in parentheses", ",", self.join_words(comma))
            return [*self.first(node.this), *self.joined(joins)]
        table = self.table(node)
        return [table] if table else []

    def joined(self, joins: list[Any] | None) -> list[Table]:
        found = [self.join(join) for join in joins or []]
        return [table for table in found if table]

    def table(self, node: Any) -> Table | None:
        while isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery) and not _named(node):
            node = node.this  # in parentheses
            if node.args.get("joins"):
                self.reject("nested join", "JOIN", self.span(node))
                return None
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            self.reject("source", type(node).__name__.lower(), self.span(node))
            return None
        self.clauses(node)
        if node.args.get("db"):
            self.reject("qualified name", node.sql(), self.span(node))
        stream = self.name(node.this)
        alias = node.args.get("alias")
        if alias and alias.args.get("columns"):
            self.reject("column aliases", alias.sql(), self.span(alias))
        return Table(stream, self.name(alias.this) if alias and alias.this else stream, None, ())

    def join(self, join: Any) -> Table | None:
        table, fields = self.table(join.this), join_fields(join)
        if table is None:
            return None
        if dict.get(join.this.args, "joins"):  # JOIN b JOIN c ON … ON …, which Spark has not
            self.reject("nested join", "JOIN", self.span(join.this))
        on = self.scalar(fields.on) if fields.on else None
        table = replace(table, on=on, using=tuple(self.name(one) for one in fields.using))
        if fields.kind in _INNER and not fields.natural:
            return replace(table, cross=fields.kind == "cross")
        place = self.join_words(join)
        if fields.kind not in _LEAVES or fields.natural:
            self.reject("join", fields.written, place)
            return table
        hidden = fields.kind in ("semi", "anti")
        region = (self.span(fields.on) if fields.on else place) if hidden else None
        return replace(table, kind=fields.kind, written=Name(fields.written, place), region=region)

    def item(self, node: Any) -> Item | None:
        span = self.span(node)
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                self.reject("star", "* with EXCEPT or REPLACE", span)
            table = node.args.get("table")
            return Item(None, None, self.name(table) if table else None, span)
        if isinstance(node, exp.Aliases | exp.QueryTransform):
            self.reject("clause", "several names for one output", span)
            return None
        if isinstance(node, exp.Alias):
            return Item(self.scalar(node.this), self.name(node.args["alias"]), None, self.span(node.this))
        return Item(self.scalar(node), None, None, span)

    def scalar(self, node: Any) -> SparkScalar:
        name_units(node)
        for inner in node.walk():
            what = unsupported_kind(inner)
            if what:
                word = inner.name if isinstance(inner, exp.Anonymous | exp.Column) else inner.key
                self.reject(what, word, self.span(inner))
        return SparkScalar(node, self.span)


def _named(node: Any) -> bool:
    return bool(dict.get(node.args, "alias"))
