"""What a query with GROUP BY or aggregates may select: keys, aggregates, and what is made of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from watersmeet.sql.resolve.resolved import Bound, Nested, all_nodes
from watersmeet.sql.site import Site
from watersmeet.sql.tree import Aggregate, Parenthesized, Scalar


def bare(node: Scalar) -> Scalar:
    """Without parentheses, to be compared with another."""
    if isinstance(node, Parenthesized):
        return bare(node.inner)
    return node.rebuilt(bare)


def check_grouped(site: Site, roots: Sequence[Scalar], keys: Sequence[Scalar], relations: Collection[str]) -> None:
    """Reject columns of these relations that are neither in a key nor in an aggregate."""
    known = {bare(key) for key in keys}

    def check(node: Scalar) -> None:
        if isinstance(node, Aggregate) or bare(node) in known:
            return
        if isinstance(node, Bound) and node.relation in relations:
            site.fail(
                node.span,
                f"{node.column} is neither in GROUP BY nor in an aggregate",
                hint=f"add it to GROUP BY, or use an aggregate such as max({node.column})",
            )
        if isinstance(node, Nested):
            for inner in all_nodes(node.query):
                if isinstance(inner, Bound) and inner.relation in relations and bare(inner) not in known:
                    check(inner)
        for child in node.children():
            check(child)

    for root in roots:
        check(root)
