"""Whole queries of Spark's dialect as the plain tree of sql/tree.py: joins of all kinds, groups, subqueries, WITH."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlglot import exp

from watersmeet.sql import tree
from watersmeet.sql.functions.aggregates import AGGREGATES
from watersmeet.sql.parse.expressions import Reader
from watersmeet.sql.parse.fields import check_all_read
from watersmeet.sql.parse.parsing import name_units, parsed, unsupported_kind
from watersmeet.sql.parse.places import Places
from watersmeet.sql.rules import reject
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Name, Token

# Clauses by sqlglot's name for them, with the words that open each.
CLAUSES = {
    **{"with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY"},
    **{"windows": "WINDOW", "order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY", "limit": "LIMIT"},
    **{"distribute": "DISTRIBUTE BY", "offset": "OFFSET", "laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"},
    **{"pivots": "PIVOT", "into": "INTO", "locks": "FOR", "version": "AS OF"},
}
_ALLOWED_KINDS = ("aggregate", "subquery")
_ENDINGS = {"order": "ORDER", "limit": "LIMIT", "offset": "OFFSET", "sort": "SORT", "cluster": "CLUSTER"}
_LARGEST_INT = 2**31 - 1
_PLAIN_ARGS = ("expressions", "from_", "joins", "where", "hint", "this", "alias", "db", "catalog")
_OPERATORS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}

# By side and kind, as Spark has them.
_JOINS = {
    **{("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "cross", ("", "COMMA"): "comma"},
    **{(side, word): side.lower() for side in ("LEFT", "RIGHT", "FULL") for word in ("", "OUTER")},
    **{(side, kind): kind.lower() for side in ("", "LEFT") for kind in ("SEMI", "ANTI")},
}
_NATURAL = ("inner", "left", "right", "full")


def parse_query(site: Site, text: str, tokens: tuple[Token, ...]) -> tuple[tree.Query, Callable[[], None]]:
    """Parse the query of these tokens, which are those of `text` without windows; raises SqlError at what none may say.

    The function rejects what was written and has not been read. It is called last, since other messages say more.
    """
    reader, root = _QueryReader(site, tokens, len(text)), parsed(site, text, tokens)
    return reader.query(root), partial(check_all_read, site, root, reader, CLAUSES)


class _QueryReader(Places):
    def __init__(self, site: Site, tokens: tuple[Token, ...], length: int) -> None:
        super().__init__(tokens, length)
        self.site = site
        self.scalars = _ScalarReader(site, self)

    def located(self, node: Any) -> tree.Where:
        return partial(self.span, node)

    def query(self, node: Any) -> tree.Query:
        if isinstance(node, exp.Subquery):
            return self._in_parentheses(node)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        word = self.tokens[0].text.upper() if self.tokens else "nothing"
        reject(self.site, "statement", word, self.word(word))

    def _in_parentheses(self, node: Any) -> tree.Query:
        """(SELECT … LIMIT 3) ORDER BY …: both endings, the inner one first."""
        query = self.query(node.this)
        ending = self._ending(node)
        common = self._common(node)
        if ending == tree.Ending() and not common:
            return query
        inner = tree.FromQuery(query, Name("q", self.span(node)))
        star = tree.Item(tree.Star(where=self.located(node)), None)
        return tree.Select((star,), inner, self.span(node), ending=ending, common=common)

    def _set_operation(self, node: Any) -> tree.Query:
        if node.args.get("by_name"):
            reject(self.site, "clause", "BY NAME", self.word("BY"))
        if isinstance(node.this, exp.Select) and (word := _ends(node.this)):
            self.site.fail(
                self.word(word),
                f"{word} stands before a set operation",
                hint="write it at the end, or put this SELECT in parentheses",
            )
        operator = _OPERATORS[type(node)] + ("" if node.args.get("distinct") else " ALL")
        left, right, span = self.query(node.this), self.query(node.expression), self.span(node)
        return tree.SetOperation(operator, left, right, span, ending=self._ending(node), common=self._common(node))

    def _select(self, node: Any) -> tree.Select:
        distinct = node.args.get("distinct")
        if distinct and distinct.args.get("on"):
            reject(self.site, "clause", "DISTINCT ON", self.word("DISTINCT"))
        where, having, group = (node.args.get(clause) for clause in ("where", "having", "group"))
        keys = None
        if group:
            if group.args.get("all") is False or (group.args.get("all") and group.expressions):
                reject(self.site, "clause", "GROUP BY ALL or DISTINCT with columns", self.word("GROUP"))
            for each in group.expressions:
                if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
                    word = {"groupingsets": "GROUPING"}.get(each.key, each.key.upper())
                    self.site.fail(
                        self.word(word), f"{word} is not supported", hint="write one query for each grouping"
                    )
            keys = tuple(self.scalars.value(each) for each in group.expressions)
        return tree.Select(
            tuple(self._item(each) for each in node.expressions),
            self._source(node),
            self.span(node),
            where=self.scalars.value(where.this) if where else None,
            group=keys,
            group_all=bool(group and group.args.get("all")),
            having=self.scalars.value(having.this) if having else None,
            distinct=bool(distinct),
            ending=self._ending(node),
            common=self._common(node),
            clauses=tuple(self._clauses(node)),
        )

    def _clauses(self, node: Any) -> Iterator[Name]:
        for arg, value in node.args.items():
            if value and arg not in _PLAIN_ARGS and isinstance(value, exp.Expression | list):
                words = CLAUSES.get(arg, arg.upper().strip("_"))
                yield Name(words, self.word(words))

    def _ending(self, node: Any) -> tree.Ending:
        order, limit, offset = (node.args.get(clause) for clause in ("order", "limit", "offset"))
        return tree.Ending(
            self.scalars.sort_keys(name_units(order)) if order else (),
            self._count(limit, "LIMIT") if limit else None,
            self._count(offset, "OFFSET") if offset else 0,
        )

    def _count(self, clause: Any, word: str) -> int:
        if isinstance(clause, exp.Fetch):
            reject(self.site, "clause", "FETCH", self.word("FETCH"))
        number = clause.expression
        if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
            self.site.fail(self.word(word), f"{word} needs a whole number", hint=f"write {word} 10")
        if int(number.name) > _LARGEST_INT:
            self.site.fail(self.word(word), f"{word} {number.name} is no INT", hint=f"the largest is {_LARGEST_INT}")
        return int(number.name)

    def _common(self, node: Any) -> tuple[tree.Common, ...]:
        clause = node.args.get("with_")
        if clause and clause.args.get("recursive"):
            reject(self.site, "clause", "RECURSIVE", self.word("RECURSIVE"))
        known: set[str] = set()
        found = []
        for each in clause.expressions if clause else ():
            name = self.name(each.args["alias"].this)
            if name.text.lower() in known:
                self.site.fail(name.span, f"WITH has {name.text} twice", hint="give each query another name")
            known.add(name.text.lower())
            found.append(tree.Common(name, self.query(each.this), self._columns(each.args["alias"])))
        return tuple(found)

    def _columns(self, alias: Any) -> tuple[Name, ...]:
        return tuple(self.name(column) for column in alias.args.get("columns") or ()) if alias else ()

    # FROM ----------------------------------------------------------------------------------------

    def _source(self, node: Any) -> tree.Source | None:
        from_ = node.args.get("from_")
        if not from_:
            return None
        return self._joined(from_.this, node.args.get("joins") or [])

    def _joined(self, first: Any, joins: list[Any]) -> tree.Source:
        """Tables and joins from left to right: in Spark, a comma binds as tightly as JOIN."""
        source = self._table(first)
        for join in joins:
            fields = _join_fields(join)
            if fields.kind is None:
                reject(self.site, "join", fields.written, self.join_words(join))
            source = tree.Join(
                "cross" if fields.kind == "comma" else fields.kind,
                source,
                self._table(join.this),
                on=self.scalars.value(fields.on) if fields.on else None,
                using=tuple(self.name(one) for one in fields.using),
                natural=fields.natural,
                written=Name(fields.written, self.join_words(join)),
            )
        return source

    def _table(self, node: Any) -> tree.Source:
        alias = node.args.get("alias")
        named = self.name(alias.this) if alias and alias.this else None
        if isinstance(node, exp.Subquery):
            unnamed = Name("", self.span(node))
            if not _is_from(node.this):
                return tree.FromQuery(self._in_parentheses(node), named or unnamed, self._columns(alias))
            joins = node.this.args.get("joins") or []
            for comma in (join for join in joins if _join_fields(join).kind == "comma"):  # as Spark's grammar
                reject(self.site, "comma in parentheses", ",", self.join_words(comma))
            inner = self._joined(node.this, joins)
            if named is None:
                return inner
            star = tree.Item(tree.Star(where=self.located(node)), None)
            return tree.FromQuery(tree.Select((star,), inner, self.span(node)), named, self._columns(alias))
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            written = {"table": "table function"}.get(node.key, node.key)
            self.site.fail(self.span(node), f"FROM accepts no {written}", hint="name a stream")
        if node.args.get("db"):
            reject(self.site, "qualified name", node.sql(), self.span(node))
        stream = self.name(node.this)
        return tree.TableName(stream, named or stream, self._columns(alias))

    def _item(self, node: Any) -> tree.Item:
        if isinstance(node, exp.Aliases | exp.QueryTransform):
            reject(self.site, "clause", "several names for one output", self.span(node))
        if isinstance(node, exp.Alias):
            return tree.Item(self.scalars.value(node.this), self.name(node.args["alias"]))
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                reject(self.site, "star", "* with EXCEPT or REPLACE", self.span(node))
            table = node.args.get("table")
            return tree.Item(tree.Star(self.name(table) if table else None, where=self.located(node)), None)
        return tree.Item(self.scalars.value(node), None)


def _ends(node: Any) -> str:
    """The word that ends a SELECT with ORDER BY, LIMIT or OFFSET, if it has any."""
    return next((word for name, word in _ENDINGS.items() if dict.get(node.args, name)), "")


def _is_from(node: Any) -> bool:
    """Whether parentheses in FROM enclose tables and joins, and not a query."""
    if isinstance(node, exp.Subquery):
        return bool(dict.get(node.args, "joins") or dict.get(node.args, "alias")) or _is_from(node.this)
    return isinstance(node, exp.Table)


@dataclass(frozen=True)
class _JoinFields:
    kind: str | None  # inner, cross, comma, left, right, full, semi or anti; None: Spark has no such join
    natural: bool
    written: str  # without regard to case and comments
    on: Any  # None: no condition
    using: list[Any]


def _join_fields(join: Any) -> _JoinFields:
    method, side, word = (str(join.args.get(name) or "").upper() for name in ("method", "side", "kind"))
    on, using = join.args.get("on"), join.args.get("using") or []
    kind = _JOINS.get((side, word)) if method in ("", "NATURAL") else None
    if method and (kind not in _NATURAL or on or using):
        kind = None
    if kind == "cross" and (on or using):
        kind = "inner"
    written = "," if word == "COMMA" else " ".join(each for each in (method, side, word, "JOIN") if each)
    return _JoinFields(kind, bool(method), written, on, using)


class _ScalarReader(Reader):
    """Expressions with aggregates and subqueries inside."""

    def __init__(self, site: Site, queries: _QueryReader) -> None:
        super().__init__(site, queries.span)
        self._queries = queries

    def value(self, node: Any) -> tree.Scalar:
        return self.read(name_units(node))

    def sort_keys(self, order: Any, depth: int = 0) -> tuple[tree.SortKey, ...]:
        return tuple(
            tree.SortKey(
                self.read(each.this, depth),
                bool(each.args.get("desc")),
                bool(each.args.get("nulls_first")),
                where=self._queries.located(each),
            )
            for each in order.expressions
        )

    def _read(self, node: Any, depth: int, where: tree.Where) -> tree.Scalar:
        if isinstance(node, exp.Window):
            return self._over(node, depth, where)
        what = unsupported_kind(node)
        if what and what not in _ALLOWED_KINDS:
            word = node.name if isinstance(node, exp.Anonymous | exp.Column) else node.key
            reject(self._site, what, word, where())
        if isinstance(node, exp.Query):
            return tree.SubqueryValue(self._queries.query(node), where=where)
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
            return tree.Exists(self._queries.query(node.this), where=where)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            if isinstance(node.this, exp.Tuple):
                reject(self._site, "tuple", "", where())
            return tree.InSubquery(self.read(node.this, depth), self._queries.query(node.args["query"]), where=where)
        if isinstance(node, exp.Any) and what == "aggregate":
            return tree.Aggregate("any", (self.read(node.this.unnest(), depth),), where=where)
        if isinstance(node, exp.Filter):
            inner = self.read(node.this, depth)
            if not isinstance(inner, tree.Aggregate):
                return tree.Unknown(
                    "FILTER without an aggregate", "write FILTER behind count(…), sum(…) …", where=where
                )
            condition = self.read(node.expression.this, depth)
            return tree.Aggregate(inner.name, inner.arguments, inner.distinct, condition, where=where)
        if isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES:
            listed, distinct = node.expressions, False
            if listed and isinstance(listed[0], exp.Distinct):
                listed, distinct = [*listed[0].expressions, *listed[1:]], True
            if len(listed) == 1 and isinstance(listed[0], exp.Star) and not any(listed[0].args.values()):
                star = tree.Star(where=self._queries.located(listed[0]))
                return tree.Aggregate(node.name.lower(), (star,), distinct, where=where)
            arguments = tuple(self.read(each, depth) for each in listed)
            return tree.Aggregate(node.name.lower(), arguments, distinct, where=where)
        return super()._read(node, depth, where)

    def _over(self, node: Any, depth: int, where: tree.Where) -> tree.Scalar:
        if node.args.get("spec") or node.args.get("alias"):
            hint = "leave out ROWS and RANGE, and write PARTITION BY and ORDER BY behind OVER"
            return tree.Unknown("a frame or a named window", hint, where=where)
        called = self.read(node.this, depth)
        if not isinstance(called, tree.Aggregate | tree.Call) or (
            isinstance(called, tree.Call) and not called.function
        ):
            return tree.Unknown("OVER without a function", "write it behind sum(…), rank() …", where=where)
        if isinstance(called, tree.Aggregate) and called.distinct:
            return tree.Unknown("DISTINCT with OVER", "remove DISTINCT, or group in a subquery first", where=where)
        order = node.args.get("order")
        keys = self.sort_keys(order, depth) if order else ()
        partition = tuple(self.read(each, depth) for each in node.args.get("partition_by") or ())
        chosen = called.filter if isinstance(called, tree.Aggregate) else None
        return tree.Over(called.name.lower(), called.arguments, chosen, partition, keys, where=where)
