"""Where a subquery may read columns of the query around it, and where a subquery that does so may stand: as in Spark.

It reads them in WHERE, in ON, in HAVING beside aggregates, and in what it selects if it does not aggregate. What is
computed from several rows (aggregates, OVER, groups, an order) is computed from its own rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.sql.resolve.resolved import Bound, Nested, ResolvedSelect, all_nodes
from watersmeet.sql.resolve.scope import Scope
from watersmeet.sql.site import Site
from watersmeet.sql.tree import Aggregate, Over, Scalar


def check_correlation(site: Site, query: ResolvedSelect, names: Scope) -> None:
    """Reject columns of the query around this one, and subqueries that read this one's, where Spark rejects them."""
    own = {each.label for each in names.relations}
    order = [each.value for each in query.order]
    for clause, roots in (("GROUP BY", query.group or ()), ("ORDER BY", order)):
        for outer in (found for root in roots for found in _outer(root, own)):
            _reject_outer(site, outer, clause)
    having = [query.having] if query.having is not None else []
    for node in (below for root in (*query.values, *having, *order) for below in root.walk()):
        if isinstance(node, Aggregate | Over):
            for outer in _outer(node, own):
                _reject_outer(site, outer, f"{node.name}(…){' OVER' if isinstance(node, Over) else ''}")
    if query.aggregated or query.distinct:  # with DISTINCT, Spark accepts some and then fails to compute them
        for outer in (found for value in query.values for found in _outer(value, own)):
            _reject_outer(site, outer, "a SELECT with aggregates, GROUP BY or DISTINCT")
    if query.aggregated:
        for nested in (found for value in query.values for found in _beside_aggregates(value)):
            if nested.kind == "value":
                _reject_correlated(site, nested, own, "what a query with aggregates or GROUP BY selects")
    for nested in (below for root in order for below in root.walk() if isinstance(below, Nested)):
        _reject_correlated(site, nested, own, "ORDER BY")


def _outer(root: Scalar, own: set[str]) -> Iterator[Bound]:
    for node in root.walk():
        if isinstance(node, Bound) and node.relation and node.relation not in own:
            yield node


def _beside_aggregates(node: Scalar) -> Iterator[Nested]:
    if isinstance(node, Nested):
        yield node
    elif not isinstance(node, Aggregate):
        for child in node.children():
            yield from _beside_aggregates(child)


def _reject_outer(site: Site, outer: Bound, clause: str) -> None:
    site.fail(
        outer.span,
        f"{outer.column} belongs to the query around this subquery, and {clause} cannot read it",
        detail="A subquery reads columns of the query around it in WHERE, in ON, and in HAVING beside aggregates.",
        hint="compare with it in WHERE, or join both streams",
    )


def _reject_correlated(site: Site, nested: Nested, own: set[str], clause: str) -> None:
    for node in all_nodes(nested.query):
        if isinstance(node, Bound) and node.relation in own:
            site.fail(
                nested.span,
                f"this subquery reads {node.column} of the query around it, and cannot stand in {clause}",
                hint="compute it in a subquery of FROM first, and name its column here",
            )
