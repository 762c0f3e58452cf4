"""Join predicates and layouts as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model.expression import ColumnRef, quoted
from watersmeet.model.predicate import LEFT, RIGHT
from watersmeet.optimize.joingraph import Attribute, Link, round_robin_over

WITHOUT_KEY = ("round-robin over ", "in one partition")  # how the layout of a store without a key begins


def looked_up_by(links: Sequence[Link]) -> str:
    if any(link.theta is None for link in links):
        return "hash"
    return "range" if any(link.theta is not None and link.theta.band is not None for link in links) else "scan"


def attribute_text(attribute: Attribute) -> str:
    relation, part = attribute
    if spread := round_robin_over(part):
        return f"{WITHOUT_KEY[0]}{spread} partitions" if spread > 1 else WITHOUT_KEY[1]
    if isinstance(part.expression, ColumnRef):
        return f"{relation}.{part.expression.shown}"
    return part.expression.spelled(lambda column: quoted(column.shown) if column.shown == column.name else column.shown)


def link_text(link: Link) -> str:
    if link.theta is None:
        return f"{attribute_text(link.left)} = {attribute_text(link.right)}"
    if link.theta.is_always_true:
        return f"every pair of {link.left[0]} and {link.right[0]}"
    relations = {LEFT: link.left[0], RIGHT: link.right[0]}
    return link.theta.condition.spelled(lambda column: f"{relations[column.row]}.{column.shown}")
