"""Measurements of the data: a pure value for each tick, added up for an epoch.

Where the figures come from:
  · rows of streams and of steps from the totals of two manifests that follow each other;
  · rows in the windows from the buckets that the manifest names;
  · sketches of keys from the tasks that gathered the rows, and from the epochs before (adapt/window_sketches.py).

An equality is *measured* where a step of the plan does nothing else: it starts at a stream's new rows and probes
another stream's store by that equality alone, for a query that wants every row of both. Then the share of pairs that
join is what it found by what it could have found. Steps from both streams together meet every pair once. A step from
one stream alone tells only of pairs whose other row came first, which may be few of those that join (a bid comes after
its bidder) or all of them: what it tells is then moved to within what the sketches allow. Behind filters a step counts
only pairs that pass them; what it tells is used where neither such a step nor sketches tell of the equality, and
divided by the share of pairs that pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import add
from statistics import median
from typing import TypeVar

from watersmeet.adapt.measured_slices import MeasuredSlices, combined, measured_slices
from watersmeet.adapt.step_facts import Pair, StepFacts
from watersmeet.adapt.window_sketches import Sketches
from watersmeet.home.manifest import BucketInfo, Manifest
from watersmeet.model import KeyPart, Query
from watersmeet.optimize.joingraph import Link, graph_of, stream_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import Named, Statistics, named_ends
from watersmeet.plan.parts import longest_windows
from watersmeet.plan.planner import Plan
from watersmeet.plan.ruleset import UNBOUNDED, Ruleset
from watersmeet.store.sketch import Sketch, SketchJoin

REMEMBERED = 256  # selectivities of filters and predicates that no query has now
DEVIATIONS = 3.0  # by which what sketches say may be wrong
NOTHING_OLDER: Sketches = {}
_Value = TypeVar("_Value")
Counted = tuple[float, float]  # pairs looked at, pairs that join


@dataclass(frozen=True)
class StepCount:
    came: float
    expected: float
    found: float
    micros: float = 0.0  # of CPU time
    ticks: int = 1
    facts: StepFacts | None = None

    def plus(self, more: StepCount) -> StepCount:
        return StepCount(
            came=self.came + more.came,
            expected=self.expected + more.expected,
            found=self.found + more.found,
            micros=self.micros + more.micros,
            ticks=self.ticks + more.ticks,
            facts=more.facts,
        )

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
    links: Mapping[tuple[Pair, str], Counted] = field(default_factory=dict)  # also by the stream whose rows came last
    filtered: Mapping[Pair, Counted] = field(default_factory=dict)  # the same behind filters, their share taken out
    filters: Mapping[Named, Counted] = field(default_factory=dict)  # (stream, filter): rows looked at, rows that passed
    unwanted: Mapping[str, int] = field(default_factory=dict)  # rows that were not stored, by stream
    spent: Mapping[str, int] = field(default_factory=dict)  # microseconds of CPU time, by stage,
    done: Mapping[str, int] = field(default_factory=dict)  # and what was done in them
    steps: Mapping[tuple[str, int], StepCount] = field(default_factory=dict)  # by plan version and step
    sketches: Mapping[tuple[str, KeyPart], Sketch] = field(default_factory=dict)  # by stream and key
    slices: MeasuredSlices = field(default_factory=MeasuredSlices)

    def plus(self, later: Measurements) -> Measurements:
        return Measurements(
            ticks=self.ticks + later.ticks,
            seconds=self.seconds + later.seconds,
            rows=combined(self.rows, later.rows, add),
            live=later.live,
            links=combined(self.links, later.links, both_counted),
            filtered=combined(self.filtered, later.filtered, both_counted),
            filters=combined(self.filters, later.filters, both_counted),
            unwanted=combined(self.unwanted, later.unwanted, add),
            spent=combined(self.spent, later.spent, add),
            done=combined(self.done, later.done, add),
            steps=combined(self.steps, later.steps, StepCount.plus),
            sketches=combined(self.sketches, later.sketches, Sketch.merged),
            slices=self.slices.plus(later.slices),
        )

    def with_unstored(self, windows: Mapping[str, int]) -> Measurements:
        """The same with the rows in the windows of streams that are not stored: as many as come while one passes."""
        found = {}
        for stream, window in windows.items():
            progress = self.slices.progress.get(stream, 0)
            if stream not in self.live and progress > 0 and window < UNBOUNDED:
                found[stream] = self.rows.get(stream, 0) * window / progress
        return replace(self, live={**self.live, **found})

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all tasks."""
        return (sum(self.spent.values()) + sum(step.micros for step in self.steps.values())) / 1e6

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

    @property
    def arrivals(self) -> dict[str, float]:
        """Rows of a tick, by stream."""
        return {name: rows / self.ticks for name, rows in self.rows.items() if rows}

    @property
    def sizes(self) -> dict[str, float]:
        """Rows in the windows by stream, also those that were not stored because no query wants them."""
        found = {}
        for name, rows in self.rows.items():
            if name in self.live:
                stored = max(1, rows - self.unwanted.get(name, 0))
                found[name] = max(1.0, self.live[name] * max(1.0, rows / stored))
        return found

    def passing(self) -> dict[Named, float]:
        """The share of the rows that pass each filter."""
        return {name: min(1.0, (passed + 0.5) / (rows + 1.0)) for name, (rows, passed) in self.filters.items() if rows}

    def selectivities(self, links: Iterable[Link], older: Sketches = NOTHING_OLDER) -> dict[Pair, float]:
        """The share of pairs that join, for each equality that a step or the sketches tell of."""
        found: dict[Pair, float] = {}
        for link in links:
            pair = frozenset(named_ends(link))
            counted = self._counted(link, pair, older) or self.filtered.get(pair)
            if counted is not None and counted[0] > 0:
                # Half a pair more: nothing found in a million pairs is less than in a hundred, and both are not zero.
                found[pair] = min(1.0, (counted[1] + 0.5) / (counted[0] + 1.0))
        return found

    def _counted(self, link: Link, pair: Pair, older: Sketches) -> Counted | None:
        streams = {stream for stream, _ in pair}
        told = [counted for stream in streams if (counted := self.links.get((pair, stream))) and counted[0] > 0]
        pairs, joined = (sum(each[at] for each in told) for at in (0, 1))
        if len(told) == len(streams):
            return pairs, joined
        sampled = self._sampled(link, older)
        if sampled is None:
            return (pairs, joined) if told else None
        if not told:
            return sampled.pairs, sampled.found
        doubt = DEVIATIONS * (sampled.deviation + 1)  # one more: what is rare may have no key in the sample
        least, most = ((sampled.found + sign * doubt) / sampled.pairs for sign in (-1, 1))
        looked = max(pairs, sampled.pairs)
        return looked, min(most, max(least, joined / pairs)) * looked

    def _sampled(self, link: Link, older: Sketches) -> SketchJoin | None:
        """Pairs of a row of this epoch with one that came before it or in the same epoch."""
        names = [(stream_of(end[0]), end[1]) for end in (link.left, link.right)]
        new = [self.sketches.get(name) for name in names]
        looked = []
        for at in (0, 1):
            mine, theirs, before = new[at], new[1 - at], older.get(names[1 - at])
            if mine is not None and before is not None:
                looked.append(mine.joined(before))
            if mine is not None and theirs is not None and at == 0:
                looked.append(mine.joined(theirs))
        looked = [each for each in looked if each.pairs > 0]
        if not looked:
            return None
        # Samples cover different shares of the pairs: they are added as if all covered as little as the least.
        all_pairs = [each.pairs / each.share for each in looked]
        share = min(each.share for each in looked)
        found = sum(each.found * share / each.share for each in looked)
        deviation = sum((each.deviation * share / each.share) ** 2 for each in looked) ** 0.5
        return SketchJoin(found, sum(all_pairs) * share, deviation, share)

    def distinct(self, older: Sketches = NOTHING_OLDER) -> dict[Named, float]:
        found = {}
        for (stream, part), sketch in self.sketches.items():
            before = older.get((stream, part))
            whole = sketch if before is None else before.merged(sketch)
            if len(whole.hashes):
                found[stream, part.name] = max(1.0, whole.distinct)
        return found


def both_counted(one: Counted, other: Counted) -> Counted:
    return one[0] + other[0], one[1] + other[1]


def measure_tick(
    before: Manifest,
    after: Manifest,
    plan: Plan,
    facts: Mapping[int, StepFacts],
    sketches: Mapping[tuple[str, KeyPart], Sketch],
    seconds: float,
    filters: Mapping[Named, Counted] | None = None,
) -> Measurements:
    """What one tick under a plan tells."""
    same = before.plan == after.plan
    windows = longest_windows(alias for query in plan.computed if query.join for alias in query.join.aliases)
    live = live_rows(after, windows, plan.rules)
    arrived = {stream.name: after.totals.rows[stream.name] - before.totals.rows[stream.name] for stream in plan.streams}
    old = live_rows(before, windows, plan.rules)
    links: dict[tuple[Pair, str], Counted] = {}
    filtered: dict[Pair, Counted] = {}
    steps = {}

    def counted(now: Counter[int], then: Counter[int], number: int) -> int:
        return now[number] - (then[number] if same else 0)

    for number, step in facts.items():
        came = counted(after.totals.step_in, before.totals.step_in, number) / step.copies
        if not came:
            continue
        found = counted(after.totals.step_out, before.totals.step_out, number)
        micros = counted(after.totals.step_micros, before.totals.step_micros, number)
        steps[after.plan, number] = StepCount(came, came * step.expected, found, micros, facts=step)
        if step.measures is not None:
            there = old.get(step.store, 0.0) + (arrived.get(step.store, 0) if step.sees_new else 0)
            seen = (came * there * step.passing, float(found))
            if step.passing == 1.0:
                links = combined(links, {(step.measures, step.start): seen}, both_counted)
            else:
                filtered = combined(filtered, {step.measures: seen}, both_counted)

    def more(kind: str) -> dict[str, int]:
        now, then = (getattr(totals, kind) for totals in (after.totals, before.totals))
        return {name: count - then[name] for name, count in now.items() if count != then[name]}

    return Measurements(
        ticks=1,
        seconds=seconds,
        rows=arrived,
        live=live,
        links=links,
        filtered=filtered,
        filters=dict(filters or {}),
        unwanted=more("unwanted"),
        spent=more("spent"),
        done=more("done"),
        steps=steps,
        sketches=dict(sketches),
        slices=measured_slices(before, after, plan.rules),
    )


def live_rows(manifest: Manifest, windows: Mapping[str, int], rules: Ruleset) -> dict[str, float]:
    """Rows of each store that are in their window; buckets that reach out of it count by their share of time."""
    newest = max(manifest.newest.values(), default=0)
    held = {name: 0.0 for name in windows}
    for bucket in manifest.buckets:
        window = windows.get(bucket.store, UNBOUNDED)  # a materialized store drops its rows by their deadlines
        held[bucket.store] = held.get(bucket.store, 0.0) + bucket.rows * _share(bucket, newest - window)
    known = {rule.name for rule in rules.probed}
    return {name: rows for name, rows in held.items() if name in known}


def _share(bucket: BucketInfo, since: int) -> float:
    if bucket.tau_min >= since:
        return 1.0
    return max(0.0, (bucket.tau_max - since + 1) / (bucket.tau_max - bucket.tau_min + 1))


def all_links(problem: Problem, queries: Iterable[Query] = ()) -> set[Link]:
    """The links of all joins that steps run, and of those by which some query could be computed in another form."""
    others = (graph_of(query.name, join) for query in queries for join in query.joins if len(query.forms) > 1)
    return {link for graph in (*problem.queries, *others) for link in graph.links}


def learned(
    old: Statistics,
    measured: Measurements,
    links: Iterable[Link],
    keep: float,
    older: Sketches = NOTHING_OLDER,
    rules: Ruleset | None = None,
) -> Statistics:
    """Old statistics with what an epoch told, of which the old value keeps a share. What is not told stays, up to a
    limit: filters of queries that come and go would otherwise add up for ever. `older` are sketches of the rows that
    were in the windows before the epoch."""

    def mixed(before: Mapping[object, float], now: Mapping[object, float]) -> dict[object, float]:
        untold = [(name, value) for name, value in before.items() if name not in now]  # the longest known first
        told = {
            name: keep * before[name] + (1 - keep) * value if name in before else value for name, value in now.items()
        }
        return {**dict(untold[-REMEMBERED:]), **told}

    return Statistics(
        sizes={**old.sizes, **measured.sizes},
        selectivities=mixed(old.selectivities, measured.selectivities(links, older)),  # type: ignore[arg-type]
        distinct=mixed(old.distinct, measured.distinct(older)),  # type: ignore[arg-type]
        filters=mixed(old.filters, measured.passing()),  # type: ignore[arg-type]
        arrivals=mixed(old.arrivals, measured.arrivals),  # type: ignore[arg-type]
        seconds=measured.seconds / measured.ticks if measured.ticks else old.seconds,
        weights=old.weights,
        progress={**old.progress, **measured.slices.progress_of_tick(measured.ticks)},
        slices={**_last(old.slices), **(measured.slices.statistics(rules, measured.ticks) if rules else {})},
        results={**_last(old.results), **measured.slices.results_of_window},
    )


def _last(known: Mapping[str, _Value]) -> dict[str, _Value]:
    return dict([*known.items()][-REMEMBERED:])
