"""Measurements of the data: a pure value for each tick, added up for an epoch.

Where the figures come from:
  · rows of streams and of steps from the totals of two manifests that follow each other;
  · rows in the windows from the buckets that the manifest names;
  · sketches of keys from the tasks that gathered the rows.

An equality is *measured* where a step of the plan does nothing else: it starts at a stream's new rows and probes
another stream's store by that equality alone. Then the share of pairs that join is what it found by what it could
have found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from watersmeet.home.manifest import BucketInfo, Manifest
from watersmeet.model import ColumnRef, KeyPart, Query
from watersmeet.optimize.joingraph import NO_KEY, Link, stream_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import Named, Statistics, named_ends
from watersmeet.plan.planner import Plan
from watersmeet.plan.ruleset import UNBOUNDED, Ruleset, Step, StoreRule, Test
from watersmeet.store.sketch import Sketch

Pair = frozenset[Named]  # the two ends of an equality
Counted = tuple[float, float]  # pairs looked at, pairs that join


@dataclass(frozen=True)
class StepFacts:
    """What is known of a step before it runs."""

    expected: float  # partial results that it makes of one, by the statistics that the plan was made with
    copies: int  # places that each partial result is sent to
    sees_new: bool  # whether it probes rows of the same tick
    store: str
    measures: Pair | None  # the equality that its counts tell of


@dataclass(frozen=True)
class StepCount:
    came: float
    expected: float
    found: float

    @property
    def error(self) -> float:
        """How many times too large or too small the estimate was; a row more on both sides, for small numbers."""
        low, high = sorted((self.expected + 1.0, self.found + 1.0))
        return high / low


@dataclass(frozen=True)
class Measurements:
    ticks: int = 0
    seconds: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)  # that arrived, by stream
    live: Mapping[str, float] = field(default_factory=dict)  # in the windows at the end, by store
    links: Mapping[Pair, Counted] = field(default_factory=dict)
    steps: Mapping[tuple[str, int], StepCount] = field(default_factory=dict)  # by plan version and step
    sketches: Mapping[tuple[str, KeyPart], Sketch] = field(default_factory=dict)  # by stream and key

    def plus(self, later: Measurements) -> Measurements:
        steps = dict(self.steps)
        for key, new in later.steps.items():
            old = steps.get(key, StepCount(0.0, 0.0, 0.0))
            steps[key] = StepCount(old.came + new.came, old.expected + new.expected, old.found + new.found)
        sketches = dict(self.sketches)
        for name, sketch in later.sketches.items():
            sketches[name] = sketches[name].merged(sketch) if name in sketches else sketch
        links = dict(self.links)
        for pair, (pairs, found) in later.links.items():
            before = links.get(pair, (0.0, 0.0))
            links[pair] = (before[0] + pairs, before[1] + found)
        return Measurements(
            self.ticks + later.ticks,
            self.seconds + later.seconds,
            {name: self.rows.get(name, 0) + later.rows.get(name, 0) for name in {**self.rows, **later.rows}},
            later.live,
            links,
            steps,
            sketches,
        )

    @property
    def rates(self) -> dict[str, float]:
        """Rows a second, by stream."""
        return {name: rows / self.seconds for name, rows in self.rows.items()} if self.seconds else {}

    @property
    def errors(self) -> tuple[float, float]:
        """The median and the worst error of the estimates for steps; 1 is exact."""
        found = [step.error for step in self.steps.values() if step.came]
        return (median(found), max(found)) if found else (1.0, 1.0)

    @property
    def renewed(self) -> float:
        """The rows that came, as a share of all that the windows hold."""
        held = sum(self.live.get(stream, 0.0) for stream in self.rows)
        return sum(self.rows.values()) / max(1.0, held)

    def selectivities(self, links: Iterable[Link]) -> dict[Pair, float]:
        """The share of pairs that join, for each equality that a step or the sketches tell of."""
        found: dict[Pair, float] = {}
        for link in links:
            pair = frozenset(named_ends(link))
            counted = self.links.get(pair)
            if counted is None or counted[0] <= 0:
                one, other = (self.sketches.get((stream_of(end[0]), end[1])) for end in (link.left, link.right))
                if one is None or other is None:
                    continue
                joined, pairs = one.joined(other)
                counted = (pairs, joined)
            if counted[0] > 0:
                # Half a pair more: nothing found in a million pairs is less than in a hundred, and both are not zero.
                found[pair] = min(1.0, (counted[1] + 0.5) / (counted[0] + 1.0))
        return found

    def distinct(self) -> dict[Named, float]:
        return {
            (stream, part.name): max(1.0, sketch.distinct)
            for (stream, part), sketch in self.sketches.items()
            if len(sketch.hashes)
        }


def named(attribute: tuple[str, KeyPart]) -> Named:
    return stream_of(attribute[0]), attribute[1].name


def measure_tick(
    before: Manifest,
    after: Manifest,
    plan: Plan,
    facts: Mapping[int, StepFacts],
    sketches: Mapping[tuple[str, KeyPart], Sketch],
    seconds: float,
) -> Measurements:
    """What one tick under a plan tells."""
    same = before.plan == after.plan
    windows = windows_of(plan.queries)
    live = live_rows(after, windows, plan.rules)
    arrived = {stream.name: after.totals.rows[stream.name] - before.totals.rows[stream.name] for stream in plan.streams}
    old = live_rows(before, windows, plan.rules)
    links: dict[Pair, Counted] = {}
    steps = {}

    def counted(now: Counter[int], then: Counter[int], number: int) -> int:
        return now[number] - (then[number] if same else 0)

    for number, step in facts.items():
        came = counted(after.totals.step_in, before.totals.step_in, number) / step.copies
        if not came:
            continue
        found = counted(after.totals.step_out, before.totals.step_out, number)
        steps[after.plan, number] = StepCount(came, came * step.expected, found)
        if step.measures is not None:
            there = old.get(step.store, 0.0) + (arrived.get(step.store, 0) if step.sees_new else 0)
            pairs, joined = links.get(step.measures, (0.0, 0.0))
            links[step.measures] = (pairs + came * there, joined + found)
    return Measurements(1, seconds, arrived, live, links, steps, dict(sketches))


def windows_of(queries: Iterable[Query]) -> dict[str, int]:
    """For each stream its longest window in microseconds."""
    found: dict[str, int] = {}
    for query in queries:
        for alias in query.aliases:
            window = UNBOUNDED if alias.window is None else alias.window
            found[alias.stream] = max(found.get(alias.stream, 0), window)
    return found


def live_rows(manifest: Manifest, windows: Mapping[str, int], rules: Ruleset) -> dict[str, float]:
    """Rows of each store that are in their window; buckets that reach out of it count by their share of time."""
    newest = max(manifest.newest.values(), default=0)
    held = {name: 0.0 for name in windows}
    for bucket in manifest.buckets:
        window = windows.get(bucket.store, UNBOUNDED)  # a materialized store drops its rows by their deadlines
        held[bucket.store] = held.get(bucket.store, 0.0) + bucket.rows * _share(bucket, newest - window)
    known = {rule.name for rule in rules.stores}
    return {name: rows for name, rows in held.items() if name in known}


def _share(bucket: BucketInfo, since: int) -> float:
    if bucket.tau_min >= since:
        return 1.0
    return max(0.0, (bucket.tau_max - since + 1) / (bucket.tau_max - bucket.tau_min + 1))


def step_facts(plan: Plan) -> dict[int, StepFacts]:
    """For each step of a plan what is expected of it."""
    statistics = plan.problem.statistics
    stores = {rule.name: rule for rule in plan.rules.stores}
    sizes = {rule.name: _size(rule, plan) for rule in plan.rules.stores}
    found: dict[int, StepFacts] = {}

    def visit(steps: tuple[Step, ...], above: tuple[StoreRule, ...]) -> None:
        for step in steps:
            rule = stores[step.store]
            links = [
                Link(_attribute(above[at], part), _attribute(rule, own))
                for own, (at, part) in zip(step.key, step.sources, strict=True)
            ]
            fanout = sizes[step.store]
            links += [_theta_link((*above, rule), test) for test in step.tests]
            for link in links:
                fanout *= statistics.selectivity(link)
            # A range that proves its predicates leaves no test: then nothing is known by which it would be measured.
            alone = len(above) == 1 and len(links) == 1 and not rule.is_materialized and step.range is None
            broadcast = rule.layout not in step.key  # also where there is none
            found[step.id] = StepFacts(
                fanout,
                len(rule.places) if broadcast else 1,
                bool(step.sees),
                step.store,
                frozenset(named_ends(links[0])) if alone else None,
            )
            visit(step.steps, (*above, rule))

    for start in plan.rules.starts:
        if start.phase:  # what fills a new store runs once, over rows that are counted already
            visit(start.steps, (stores[start.stream],))
    return found


def _size(rule: StoreRule, plan: Plan) -> float:
    if not rule.is_materialized:
        return plan.problem.statistics.size(rule.name)
    members = {relation for relation, _ in rule.members}
    return next(plan.problem.size(store) for store in plan.solution.materialized if store.relations == members)


def _attribute(rule: StoreRule, part: KeyPart) -> tuple[str, KeyPart]:
    """A key of a store as the key of the stream that it came from."""
    if not rule.is_materialized:
        return rule.name, part
    kept = next(column for column in rule.kept if column.name == part.column)
    source = ColumnRef(kept.source, part.type) if isinstance(kept.source, str) else kept.source
    return rule.members[kept.member][1], KeyPart(source, part.type)


def _theta_link(rules: tuple[StoreRule, ...], test: Test) -> Link:
    """A test as the link of the streams that its rows came from."""
    sides = []
    for position, prefix in (test.left, test.right):
        rule = rules[position]
        relation = prefix.removesuffix(".") if prefix else rule.name
        sides.append((stream_of(relation), NO_KEY))
    return Link(sides[0], sides[1], test.theta)


def all_links(problem: Problem) -> set[Link]:
    return {link for query in problem.queries for link in query.links}


def learned(old: Statistics, measured: Measurements, links: Iterable[Link], keep: float) -> Statistics:
    """Old statistics with what an epoch told, of which the old value keeps a share. What is not told stays."""

    def mixed(before: Mapping[object, float], now: Mapping[object, float]) -> dict[object, float]:
        return {
            **before,
            **{
                name: keep * before[name] + (1 - keep) * value if name in before else value
                for name, value in now.items()
            },
        }

    streams = {name: rows for name, rows in measured.live.items() if name in measured.rows}
    return Statistics(
        {**old.sizes, **{name: max(1.0, rows) for name, rows in streams.items()}},
        mixed(old.selectivities, measured.selectivities(links)),  # type: ignore[arg-type]
        mixed(old.distinct, measured.distinct()),  # type: ignore[arg-type]
    )
