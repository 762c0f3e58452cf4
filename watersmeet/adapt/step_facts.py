"""What is known of the steps of a plan before they run: what they should find, and what that should cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from watersmeet.model import ColumnRef, KeyPart
from watersmeet.optimize.joingraph import NO_KEY, Link, stream_of
from watersmeet.optimize.statistics import Named, Statistics, named_ends
from watersmeet.plan.planner import Plan
from watersmeet.plan.ruleset import FilterNeed, ProbedStore, Step, Test
from watersmeet.store.derived import Bit

Pair = frozenset[Named]  # the two ends of an equality


@dataclass(frozen=True)
class StepFacts:
    """What is known of a step before it runs."""

    expected: float  # partial results that it makes of one, by the statistics that the plan was made with
    copies: int  # places that each partial result is sent to
    sees_new: bool  # whether it probes rows of the same tick
    start: str  # the stream whose new rows it starts at
    store: str
    measures: Pair | None  # the equality that its counts tell of
    passing: float = 1.0  # share of the pairs that its filters let pass; 1: there are none
    # What its cost depends on
    rows: float = 0.0  # in the store
    hits: float = 0.0  # share of the probes that find something
    buckets: float = 1.0


def step_facts(plan: Plan) -> dict[int, StepFacts]:
    """For each step of a plan what is expected of it."""
    statistics = plan.problem.statistics
    stores = {rule.name: rule for rule in plan.rules.probed}
    sizes = {rule.name: _size(rule, plan) for rule in plan.rules.probed}
    found: dict[int, StepFacts] = {}

    problem = plan.problem

    def visit(steps: tuple[Step, ...], above: tuple[ProbedStore, ...], asked: dict[str, float]) -> None:
        for step in steps:
            if step.leaf is not None:  # it finds out whether there are partners, not how many
                continue
            rule = stores[step.store]
            links = [
                Link(_attribute(above[at], part), _attribute(rule, own))
                for own, (at, part) in zip(step.key, step.sources, strict=True)
            ]
            fanout = sizes[step.store]
            links += [_theta_link((*above, rule), test) for test in step.tests]
            for link in links:
                fanout *= statistics.selectivity(link)
            here = _passing(step.groups, rule, statistics)
            passing = {group: share * here.get(group, 1.0) for group, share in asked.items()}
            # Of the partial results that come, each has passed some filter: what counts is what the stored rows pass.
            came = min(1.0, sum(asked.get(ask.group, 1.0) for ask in step.groups))
            plain = any(passing.get(ask.group, 1.0) == 1.0 for ask in step.groups)  # some group wants every pair
            share = min(1.0, sum(passing.get(ask.group, 1.0) for ask in step.groups)) / max(1e-9, came)
            # A range that proves its predicates leaves no test: then nothing is known by which it would be measured.
            alone = len(above) == 1 and len(links) == 1 and not rule.is_materialized and step.range is None
            key = rule.placement.key
            broadcast = not key or key[0] not in step.key
            found[step.id] = StepFacts(
                expected=fanout * share,
                copies=len(rule.placement.used) if broadcast else 1,
                sees_new=bool(step.sees),
                start=above[0].name,
                store=step.store,
                measures=frozenset(named_ends(links[0])) if alone else None,
                passing=1.0 if plain else min(share, 1 - 1e-9),
                rows=sizes[step.store],
                hits=min(1.0, fanout * share),
                buckets=problem.buckets,
            )
            visit(step.steps, (*above, rule), passing)

    for start in plan.rules.starts:
        if start.phase:  # what fills a new store runs once, over rows that are counted already
            rule = stores[start.stream]
            shares = {ask.group: 1.0 for ask in start.groups} | _passing(start.groups, rule, statistics)
            visit(start.steps, (rule,), shares)
    return found


def _passing(asks: Iterable[FilterNeed], rule: ProbedStore, statistics: Statistics) -> dict[str, float]:
    """The share of the rows of a store that some query of a group wants, by group."""
    found = {}
    for ask in asks:
        shares = [_passes(bit, rule, statistics) for bit in ask.block.bits]
        found[ask.group] = min(1.0, sum(shares)) if shares else 1.0
    return found


def _passes(bit: Bit, rule: ProbedStore, statistics: Statistics) -> float:
    if not bit:
        return 1.0
    # A materialized store has columns for the filters of its members, which others than this query's passed too.
    return min(1.0, sum(statistics.passing((rule.name, each.text)) for each in bit))


def _size(rule: ProbedStore, plan: Plan) -> float:
    if not rule.is_materialized:
        return plan.problem.statistics.size(rule.name)
    members = {relation for relation, _ in rule.members}
    return next(plan.problem.size(store) for store in plan.solution.materialized if store.relations == members)


def _attribute(rule: ProbedStore, part: KeyPart) -> tuple[str, KeyPart]:
    """A key of a store as the key of the stream that it came from."""
    if not rule.is_materialized:
        return rule.name, part
    kept = next(column for column in rule.kept if column.name == part.column)
    source = ColumnRef(kept.source, part.type) if isinstance(kept.source, str) else kept.source
    return rule.members[kept.member][1], KeyPart(source, part.type)


def _theta_link(rules: tuple[ProbedStore, ...], test: Test) -> Link:
    """A test as the link of the streams that its rows came from."""
    sides = []
    for position, prefix in (test.left, test.right):
        rule = rules[position]
        relation = prefix.removesuffix(".") if prefix else rule.name
        sides.append((stream_of(relation), NO_KEY))
    return Link(sides[0], sides[1], test.theta)
