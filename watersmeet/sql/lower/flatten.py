"""Subqueries in FROM of a continuous join become a part of the one join.

What they select stands for their columns, and their WHERE is a part of the outer one.

The rows of a subquery behind LEFT JOIN, SEMI JOIN or ANTI JOIN, and before RIGHT JOIN, are partners: its WHERE becomes
a part of ON. Where such a row may be missing, what the subquery computes of it is unknown outside of ON.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from watersmeet.sql.limits import check_parts
from watersmeet.sql.resolve.resolved import (
    Bound,
    Nested,
    ResolvedJoin,
    ResolvedQuery,
    ResolvedSelect,
    ResolvedSource,
    Scan,
    Subselect,
    sources,
)
from watersmeet.sql.site import Site
from watersmeet.sql.tree import Call, Scalar, as_operand


def flattened(site: Site, query: ResolvedQuery) -> ResolvedSelect:
    """The same query over streams alone. No SELECT in it has more than FROM and WHERE, but for the outermost one."""
    return _Flattening(site).select(query)


class _Flattening:
    def __init__(self, site: Site) -> None:
        self._site = site
        # By labels; None: computed of a row that may be missing.
        self._values: dict[tuple[str, str], Scalar | None] = {}

    def select(self, query: ResolvedQuery) -> ResolvedSelect:
        assert isinstance(query, ResolvedSelect) and query.source is not None
        if not self._values and not any(isinstance(each, Subselect) for each in sources(query)):
            tests = [node for node in query.where.walk() if isinstance(node, Nested)] if query.where else []
            if all(not isinstance(source, Subselect) for test in tests for source in sources(test.query)):
                return query  # as most are
        source, inner = self._source(query.source)
        return replace(
            query,
            source=source,
            where=_both(inner, self._whole(query.where) if query.where is not None else None),
            values=tuple(map(self._whole, query.values)),
            group=tuple(map(self._whole, query.group)) if query.group is not None else None,
            having=self._whole(query.having) if query.having is not None else None,
            order=tuple(replace(each, value=self._whole(each.value)) for each in query.order),
        )

    def _source(self, source: ResolvedSource) -> tuple[ResolvedSource, Scalar | None]:
        """The same over streams, and the conditions of subqueries inside that are conditions of the whole."""
        if isinstance(source, Scan):
            return source, None
        if isinstance(source, Subselect):
            query = self.select(source.query)
            for column, value in zip(query.outputs, query.values, strict=True):
                self._values[source.label, column.label] = value
            assert query.source is not None
            return query.source, query.where
        (left, left_where), (right, right_where) = self._source(source.left), self._source(source.right)
        on = self._whole(source.on) if source.on is not None else None
        if source.kind == "right":
            on, left_where = _both(on, left_where), None
        elif source.kind in ("left", "semi", "anti"):
            on, right_where = _both(on, right_where), None
        if source.kind in ("left", "right"):
            self._may_be_missing(source.left if source.kind == "right" else source.right)
        return replace(source, left=left, right=right, on=on), _both(left_where, right_where)

    def _may_be_missing(self, source: ResolvedSource) -> None:
        if isinstance(source, ResolvedJoin):
            self._may_be_missing(source.left)
            self._may_be_missing(source.right)
        elif isinstance(source, Subselect):
            for key, value in self._values.items():
                if key[0] == source.label and not isinstance(value, Bound):
                    self._values[key] = None

    def _whole(self, node: Scalar) -> Scalar:
        found = self._read(node)
        check_parts(self._site, found)
        return found

    def _read(self, node: Scalar, of: Scalar | None = None) -> Scalar:
        if isinstance(node, Bound) and (node.relation, node.column) in self._values:
            value = self._values[node.relation, node.column]
            if value is None:
                self._site.fail(
                    node.span,
                    f"{node.column} is computed by a subquery whose row may be missing",
                    hint="let the subquery select its columns, and compute it in the outer SELECT",
                )
            return as_operand(of, value)
        if isinstance(node, Nested):
            read = self._read(node.value) if node.value is not None else None
            return replace(node, query=self.select(node.query), value=read)
        return node.rebuilt(partial(self._read, of=node))


def _both(one: Scalar | None, other: Scalar | None) -> Scalar | None:
    if one is None or other is None:
        return one if other is None else other
    return Call("and", (one, other))
