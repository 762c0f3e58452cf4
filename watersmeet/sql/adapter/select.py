"""One SELECT, parsed and turned into plain values; what is not supported is collected with its position."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlglot import exp

from watersmeet.sql.adapter.parsing import name_units, parsed, unsupported_kind
from watersmeet.sql.adapter.places import Places
from watersmeet.sql.adapter.scalar import SparkScalar
from watersmeet.sql.adapter.subqueries import nested_tables
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Item, Name, Select, Table, Token, UnsupportedClause

JOIN_WORDS = ("LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF", "JOIN")
# Clauses by sqlglot's name for them, with the words that open each.
CLAUSES = {
    **{"with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY"},
    **{"windows": "WINDOW", "order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "limit": "LIMIT"},
    **{"distribute": "DISTRIBUTE BY", "offset": "OFFSET", "laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"},
    **{"pivots": "PIVOT", "into": "INTO", "locks": "FOR", "version": "AS OF"},
}
_KINDS = {
    **{"LEFT JOIN": "left", "RIGHT JOIN": "right"},
    **{f"{left}{kind} JOIN": kind.lower() for left in ("", "LEFT ") for kind in ("SEMI", "ANTI")},
}
_PLAIN_ARGS = {"expressions", "from_", "joins", "where", "hint", "this", "alias", "db", "catalog"}


def parse_select(site: Site, text: str, tokens: tuple[Token, ...]) -> Select:
    """Parse one SELECT whose windows are blanked in `text`; what is not supported is in `unsupported`."""
    return _Reader(tokens, len(text)).select(parsed(site, text, tokens))


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
        tables = [table for table in [self.table(from_.this, None)] if table] if from_ else []
        joins = ((join, self.table(join.this, join)) for join in root.args.get("joins") or [])
        tables += [self.joined(table, join) for join, table in joins if table]
        where = root.args.get("where")
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

    def table(self, node: Any, join: Any) -> Table | None:
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            self.reject("source", type(node).__name__.lower(), self.span(node))
            return None
        self.clauses(node)
        if node.args.get("joins"):
            self.reject("nested join", "JOIN", self.span(node))
        if node.args.get("db"):
            self.reject("qualified name", node.sql(), self.span(node))
        stream = self.name(node.this)
        alias = node.args.get("alias")
        if alias and alias.args.get("columns"):
            self.reject("column aliases", alias.sql(), self.span(alias))
        on = join.args.get("on") if join else None
        using = join.args.get("using") or [] if join else []
        return Table(
            stream,
            self.name(alias.this) if alias and alias.this else stream,
            self.scalar(on) if on else None,
            tuple(self.name(one) for one in using),
        )

    def joined(self, table: Table, join: Any) -> Table:
        """The table with the kind of its join."""
        start = self.span(join.this)[0]
        before = [token for token in self.tokens if token.end <= start]
        words: list[Token] = []
        while before and before[-1].is_word(*JOIN_WORDS):
            words.insert(0, before.pop())
        written = " ".join(word.text.upper() for word in words)
        if written in ("", "JOIN", "INNER JOIN", "CROSS JOIN"):
            return replace(table, cross=written == "CROSS JOIN")
        place = (words[0].start, words[-1].end)
        kind = _KINDS.get(written.replace(" OUTER", ""))
        if kind is None:
            self.reject("join", written, place)
            return table
        on = join.args.get("on")
        hidden = kind in ("semi", "anti")
        region = (self.span(on) if on else place) if hidden else None
        return replace(table, kind=kind, written=Name(written, place), region=region)

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
