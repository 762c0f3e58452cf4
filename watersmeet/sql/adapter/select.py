"""One SELECT, parsed and turned into plain values; what is not supported is collected with its position."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from watersmeet.sql.adapter.scalar import SparkScalar
from watersmeet.sql.adapter.tokens import SPARK, backslashed
from watersmeet.sql.functions.rejected import AGGREGATES, CHANGING, GENERATORS, ZONES
from watersmeet.sql.site import Site, Span
from watersmeet.sql.syntax import Item, Name, Select, Table, Token, UnsupportedClause

_JOIN_WORDS = ("LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "SEMI", "ANTI", "NATURAL", "ASOF", "JOIN")
# Clauses by sqlglot's name for them, with the words that open each.
_CLAUSES = {
    **{"with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY"},
    **{"windows": "WINDOW", "order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "limit": "LIMIT"},
    **{"distribute": "DISTRIBUTE BY", "offset": "OFFSET", "laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"},
    **{"pivots": "PIVOT", "into": "INTO", "locks": "FOR", "version": "AS OF"},
}
_PLAIN_ARGS = {"expressions", "from_", "joins", "where", "hint", "this", "alias", "db", "catalog"}
_WITH_UNIT = ("timestampdiff", "datediff", "date_diff", "timestampadd", "dateadd", "date_add")


def parse_select(site: Site, text: str, tokens: tuple[Token, ...]) -> Select:
    """Parse one SELECT whose windows are blanked in `text`; what is not supported is in `unsupported`."""
    for before, after in pairwise(tokens):
        if before.kind == "symbol" and before.text == ";":
            site.fail(after.span, "a query has one SELECT", hint="remove the text after the semicolon")
    try:
        roots = SPARK.parse(backslashed(text))
    except ParseError as error:
        _syntax_error(site, text, tokens, error)
    except (SqlglotError, RecursionError) as error:
        site.fail((0, len(text)), "this text cannot be parsed as SQL", detail=f"{error}".partition("\n")[0])
    return _Reader(tokens, len(text)).select(roots[0] if roots else None)


def _syntax_error(site: Site, text: str, tokens: tuple[Token, ...], error: ParseError) -> NoReturn:
    first = error.errors[0] if error.errors else {}
    lines = text.split("\n")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    end = sum(len(one) + 1 for one in lines[: line - 1]) + column
    near = next((token for token in tokens if token.start < end <= token.end), None)
    span = near.span if near else (max(0, end - 1), end)
    what = f"unexpected {text[span[0] : span[1]]}" if near else "the SELECT is not complete"
    if "Required keyword" in str(first.get("description")):
        what = f"something is missing at {text[span[0] : span[1]]}"
    site.fail(span, what, hint="write SELECT … FROM stream [RANGE 10 SECONDS] AS alias, … WHERE …")


class _Reader:
    """Turns one sqlglot tree into a Select. Keywords leave no position in the tree, so tokens supply it."""

    def __init__(self, tokens: tuple[Token, ...], length: int) -> None:
        self.tokens = tokens
        self.starts = [token.start for token in tokens]
        self.whole: Span = (tokens[0].start, tokens[-1].end) if tokens else (0, length)
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
        for join in root.args.get("joins") or []:
            cross = self.join_kind(join)
            if table := self.table(join.this, join):
                tables.append(replace(table, cross=cross))
        where = root.args.get("where")
        items = [self.item(node) for node in root.expressions]
        selected = Select(
            tuple(item for item in items if item),
            tuple(tables),
            self.scalar(where.this) if where else None,
            tuple(sorted(self.unsupported, key=lambda found: (found.span[0], -found.span[1]))),
        )
        return selected

    def reject(self, what: str, written: str, span: Span) -> None:
        self.unsupported.append(UnsupportedClause(what, written, span))

    def clauses(self, node: Any) -> None:
        for arg, value in node.args.items():
            if value and arg not in _PLAIN_ARGS and isinstance(value, exp.Expression | list):
                words = _CLAUSES.get(arg, arg.upper().strip("_"))
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

    def join_kind(self, join: Any) -> bool:
        """Whether it is a cross join."""
        start = self.span(join.this)[0]
        before = [token for token in self.tokens if token.end <= start]
        words: list[Token] = []
        while before and before[-1].is_word(*_JOIN_WORDS):
            words.insert(0, before.pop())
        written = " ".join(word.text.upper() for word in words)
        if written not in ("", "JOIN", "INNER JOIN", "CROSS JOIN"):
            self.reject("join", written, (words[0].start, words[-1].end))
        return written == "CROSS JOIN"

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
        for call in list(node.find_all(exp.Anonymous)):
            unit = call.expressions[0] if len(call.expressions) == 3 and call.name.lower() in _WITH_UNIT else None
            if isinstance(unit, exp.Column) and len(unit.parts) == 1:  # SECOND, say, is no column
                unit.replace(exp.Literal.string(unit.name))
        for inner in node.walk():
            what = _unsupported(inner)
            if what:
                word = inner.name if isinstance(inner, exp.Anonymous | exp.Column) else inner.key
                self.reject(what, word, self.span(inner))
        return SparkScalar(node, self.span)

    def name(self, node: Any) -> Name:
        return Name(node.name, self.span(node))

    def word(self, words: str) -> Span:
        """Where a keyword stands outside of all parentheses, or else anywhere."""
        hits: list[tuple[int, Span]] = []
        depth = 0
        for token in self.tokens:
            depth += token.means("(") - token.means(")")
            if token.kind == "word" and token.text.upper().split()[0] == words.split(maxsplit=1)[0]:
                hits.append((depth, token.span))
        return min(hits, default=(0, self.whole))[1]

    def span(self, node: Any, word: str = "") -> Span:
        """From the first to the last token known to belong to a node, with what its parentheses enclose."""
        marks = [inner.meta for inner in node.walk() if "start" in inner.meta]
        if not marks:
            return self.word(word.upper()) if word else self.whole
        start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks) + 1
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end) - 1
        if isinstance(node, exp.Func) and "start" not in node.meta and first > 1 and self.tokens[first - 1].means("("):
            first -= 2
        elif isinstance(node, exp.Query | exp.Case | exp.Lateral):
            opening = node.key.upper() if isinstance(node, exp.Case | exp.Lateral) else "SELECT"
            first = next((at for at in range(first, -1, -1) if self.tokens[at].is_word(opening)), first)
        depth = sum(token.means("(", "[") - token.means(")", "]") for token in self.tokens[first : last + 1])
        while depth > 0 and last + 1 < len(self.tokens):
            last += 1
            depth += self.tokens[last].means("(", "[") - self.tokens[last].means(")", "]")
        return self.tokens[first].start, self.tokens[last].end


def _unsupported(node: Any) -> str | None:
    """The kind of construct, where no single row could answer it or no translation keeps its meaning."""
    if isinstance(node, exp.Query):
        return "subquery"
    if isinstance(node, exp.Window):
        return "window function"
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        kinds = (
            (AGGREGATES, "aggregate"),
            (GENERATORS, "table function"),
            (CHANGING, "not deterministic"),
            (ZONES, "time zone"),
        )
        found = next((what for names, what in kinds if name in names), None)
        now = name == "unix_timestamp" and not node.expressions
        return found or ("not deterministic" if now else None)
    if isinstance(node, exp.Any) and not isinstance(node.parent, exp.Like | exp.ILike | exp.Binary):
        return "aggregate"
    if isinstance(node, exp.Column) and len(node.parts) == 1 and not node.this.quoted and node.name.lower() in CHANGING:
        return "not deterministic"
    if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        return "parameter"
    if isinstance(node, exp.AtTimeZone):
        return "time zone"
    if isinstance(node, exp.Star):
        return "star"
    if isinstance(node, exp.Tuple) and not isinstance(node.parent, exp.Any | exp.All):
        return "tuple"
    return None
