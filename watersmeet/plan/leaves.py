"""The ways in which the compiler uses leaf checks.

| the path begins with | for rows without a partner | for rows with one |
|---|---|---|
| a new row of the preserved side | those whose deadline the watermark has passed already | those that have a partner |
| a stored row, when the watermark passes its deadline | those that have none | |
| a new row of the leaf | | rows of earlier ticks whose first partner it is |
| a stored row, for a backfill | those decided before this tick | those whose partner came before this tick |

Each is found once: of a preserved result the members of which arrive in one tick exactly one finds the others; of those
that are due exactly one member gives the deadline (the first, if several do); and exactly one partner is the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from watersmeet.model import KeyPart, Stream
from watersmeet.optimize.joingraph import QueryGraph, Subquery, single
from watersmeet.plan.access import lookup_in, member_in, seen_in
from watersmeet.plan.nodes import StepNode
from watersmeet.plan.parts import LeafJoin
from watersmeet.plan.ruleset import UNBOUNDED, LeafCheck, Lookup, Member, Start

NOBODY = single("")  # in the place of a row that a leaf check does not look at


@dataclass(frozen=True)
class Use:
    """One way to use a leaf check."""

    sees: bool = True  # rows of this tick in the leaf
    due: str = ""  # the relation whose stored rows it begins with
    backfill: bool = False
    first_partner: bool = False  # it begins with rows of the leaf


ARRIVAL, FIRST_PARTNER = Use(), Use(first_partner=True)


def backfill_use(leaf: LeafJoin) -> Use:
    return Use(sees=not leaf.wants_partner, backfill=True)


def due_uses(leaf: LeafJoin) -> list[Use]:
    """The uses of a store of which rows become due, one for each relation that may give the deadline."""
    return [] if leaf.wants_partner else [Use(due=relation) for relation, window in leaf.windows if window < UNBOUNDED]


def with_leaf(graph: QueryGraph, leaf: LeafJoin) -> QueryGraph:
    return replace(graph, relations=(*graph.relations, leaf.relation), links=graph.links | leaf.links)


def leaf_check(leaf: LeafJoin, use: Use, stores: Sequence[Subquery], node: StepNode, stream: Stream) -> LeafCheck:
    """What is checked at a node. `stores` are those of the positions that it finds, `stream` is the leaf's."""
    relations = [relation for relation, _ in leaf.windows]
    members = tuple(member_in(stores, relation) for relation in relations)
    own = single(leaf.relation)
    verify: list[tuple[Member, KeyPart, KeyPart]] = []
    for link in sorted((link for link in leaf.links if link.theta is None), key=lambda link: link.text):
        inner, outer = link.ends((leaf.relation,))
        if not node.proves(seen_in(own, *inner), lookup_in(stores, *outer)):
            verify.append((member_in(stores, outer[0]), outer[1], inner[1]))
    behind = None
    if use.backfill and stream.retain is not None:  # older partners may have been deleted
        behind = stream.retain - leaf.window
    return LeafCheck(
        wants_partner=leaf.wants_partner,
        members=members,
        windows=tuple(window for _, window in leaf.windows),
        verify=tuple(verify),
        decided="" if leaf.wants_partner else stream.name,
        before=use.backfill,
        behind=behind,
        first=relations.index(use.due) if use.due else None,
        precedes=use.first_partner,
    )


def proving_key(start: Start) -> Lookup | None:
    """The key of a leaf's rows that alone decides what they are partners of, but for times and filters."""
    (step,) = start.steps
    (below,) = step.steps
    checks = all(not emit.verify for emit in below.emits)
    if below.leaf is None or below.leaf.verify or not (step.key and below.key and checks):
        return None
    return step.sources[0] if len(start.carry) == 1 and not (step.tests or below.tests) else None
