"""Statistics of the streams, and the sizes of subqueries that follow from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from watersmeet.errors import ModelError
from watersmeet.model import Theta
from watersmeet.optimize.joingraph import Attribute, Link, Subquery, root_of, stream_of

DEFAULT_SIZE = 1000.0
DEFAULT_TICKS = 10.0
DEFAULT_KEYS = 100.0
_INFINITE = 1e300
Named = tuple[str, str]  # (stream, key expression)


@dataclass(frozen=True)
class SliceStatistics:
    """What is known of a slice store."""

    title: str  # its source and keys: another store with the same has as many keys
    rows: float  # that go into it in a tick,
    slices: float  # and rows of slices that they become
    keys: float  # different ones, if all of a long time were counted


@dataclass(frozen=True)
class Statistics:
    """Tuples of each stream in its window, and the share of pairs that satisfy an equality or another predicate.

    What is not given has a neutral default: `DEFAULT_SIZE` rows, and one partner for each probe."""

    sizes: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[frozenset[Named], float] = field(default_factory=dict)  # for a theta: (stream, its text)
    distinct: Mapping[Named, float] = field(default_factory=dict)
    filters: Mapping[Named, float] = field(default_factory=dict)  # (stream, text of a filter): share that passes
    arrivals: Mapping[str, float] = field(default_factory=dict)  # rows of a stream in a tick
    seconds: float = 0.0  # from one tick to the next; 0: unknown
    weights: Mapping[str, float] = field(default_factory=dict)  # those that the engine measured, by their names
    progress: Mapping[str, float] = field(default_factory=dict)  # seconds of event time in a tick, by stream
    slices: Mapping[str, SliceStatistics] = field(default_factory=dict)  # by slice store
    results: Mapping[str, float] = field(default_factory=dict)  # rows of a window, by windowed query

    def size(self, relation: str) -> float:
        return max(1e-9, self.sizes.get(stream_of(relation), DEFAULT_SIZE))

    def selectivity(self, link: Link) -> float:
        given = self.selectivities.get(frozenset(named_ends(link)))
        if given is not None:
            return given
        if link.theta is not None:
            return _guessed(link.theta)
        return 1.0 / max(self._distinct(link.left), self._distinct(link.right))

    def knows_selectivity(self, link: Link) -> bool:
        """Whether the selectivity follows from figures, so that it is not a default."""
        if frozenset(named_ends(link)) in self.selectivities:
            return True
        if link.theta is not None:
            return link.theta.is_always_true
        return any(_named(end) in self.distinct for end in (link.left, link.right))

    def knows(self, link: Link) -> bool:
        """Whether the selectivity of a link is not assumed."""
        if frozenset(named_ends(link)) in self.selectivities:
            return True
        return link.theta is None and all(end in self.distinct for end in named_ends(link))

    def _distinct(self, attribute: Attribute) -> float:
        return max(1.0, self.distinct.get(_named(attribute), self.size(attribute[0])))

    def passing(self, filter: Named) -> float:
        """The share of the rows of a stream that pass a filter."""
        given = self.filters.get(filter)
        return max(1e-9, _guessed_filter(filter[1]) if given is None else given)

    def ticks(self, streams: Iterable[str]) -> float:
        """In how many ticks as many rows arrive as the windows of these streams have."""
        known = [stream for stream in streams if self.arrivals.get(stream, 0.0) > 0]
        if not known:
            return DEFAULT_TICKS
        return max(1.0, sum(map(self.size, known)) / sum(self.arrivals[stream] for stream in known))

    def arriving(self, stream: str, ticks: float) -> float:
        """Rows of a stream in a tick, if the windows are renewed in so many."""
        known = self.arrivals.get(stream)
        return self.size(stream) / ticks if known is None else known

    def turnover(self, stream: str, ticks: float) -> float:
        """Rows of a stream that arrive in so many ticks, by those in its window."""
        arrived = self.arrivals.get(stream)
        return 1.0 if arrived is None else arrived * ticks / self.size(stream)

    def cardinality(self, subquery: Subquery) -> float:
        """The expected size of the full join of the subquery's windows."""
        size = 1.0
        for relation in sorted(subquery.relations):
            size *= self.size(relation)
        # Without a cycle all equalities count; they need not be sorted out, and sizes are asked for often.
        tree = len(subquery.links) < len(subquery.relations)
        links = subquery.links if tree else independent(subquery.links, self)
        for selectivity in sorted(self.selectivity(link) for link in links):
            size *= selectivity
        return size


def independent(links: Iterable[Link], statistics: Statistics) -> list[Link]:
    """The equalities that do not follow from the others: a cycle over one shared value closes by itself.

    Of each such cycle the least selective equality is left out."""
    parent: dict[Attribute, Attribute] = {}
    kept = []
    for link in sorted(links, key=lambda link: (statistics.selectivity(link), link.text)):
        if link.theta is not None:
            kept.append(link)
            continue
        left, right = root_of(parent, link.left), root_of(parent, link.right)
        if left != right:
            parent[left] = right
            kept.append(link)
    return kept


def named_ends(link: Link) -> tuple[Named, Named]:
    """What statistics know a link by."""
    if link.theta is not None:
        return (stream_of(link.left[0]), link.theta.text), (stream_of(link.right[0]), link.theta.text)
    return _named(link.left), _named(link.right)


def _guessed(theta: Theta) -> float:
    """The share of pairs of which nothing else is known: as System R guessed, and everything for a cross product."""
    if theta.is_always_true:
        return 1.0
    if theta.band is None:
        return 1 / 2
    return 1 / 100 if theta.band.low is not None and theta.band.high is not None else 1 / 3


def _guessed_filter(text: str) -> float:
    """The share of rows that pass a filter of which nothing else is known."""
    return 1 / 10 if re.search(r"[^<>!]=[^=]", text) else 1 / 3


def _named(attribute: Attribute) -> Named:
    relation, part = attribute
    return stream_of(relation), part.name


def read_statistics(text: str, windows: Mapping[str, float] | None = None) -> Statistics:
    """Statistics from JSON: `{"sizes": {"r": 100}, "selectivities": [{"left": "r.a", "right": "s.a", "value": 0.01}]}`.

    Instead of sizes there may be `"rates"`, rows a second, which `windows` (seconds, by stream) turns into sizes."""
    try:
        raw: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ModelError(f"the statistics are not JSON: {problem}") from None
    known = {"rates", *(part.name for part in fields(Statistics))}
    if not isinstance(raw, dict) or set(raw) - known:
        extra = ", ".join(sorted(set(raw) - known)) if isinstance(raw, dict) else type(raw).__name__
        raise ModelError(f"the statistics have unknown parts: {extra}", detail=f"Parts: {', '.join(sorted(known))}.")

    def figures(part: str) -> dict[str, float]:
        return {name: _positive(f"{part}.{name}", value) for name, value in raw.get(part, {}).items()}

    try:
        sizes = figures("sizes")
        for name, rate in raw.get("rates", {}).items():
            if name not in (windows or {}):
                raise ModelError(f"no query has a bounded window over {name}", hint=f"give sizes.{name} instead")
            sizes.setdefault(name, _positive(f"rates.{name}", rate) * (windows or {})[name])
        pairs = {}
        for entry in raw.get("selectivities", []):
            # Of a predicate that is no equality: the streams, and its text over "l.x" (of the smaller name) and "r.y".
            theta = entry.get("predicate")
            ends = frozenset(_column(entry[at]) if theta is None else (entry[at], theta) for at in ("left", "right"))
            what = "the selectivity of " + (theta or f"{entry['left']} = {entry['right']}")
            pairs[ends] = _share(what, entry["value"])
        distinct = {
            _column(name): _positive(f"distinct {name}", value) for name, value in raw.get("distinct", {}).items()
        }
        filters = {}
        for entry in raw.get("filters", []):
            what = f"the share of {entry['stream']} that passes {entry['filter']}"
            filters[entry["stream"], entry["filter"]] = _share(what, entry["value"])
        arrivals, progress = figures("arrivals"), figures("progress")
        for name, rate in raw.get("rates", {}).items():
            progress.setdefault(name, arrivals.get(name, sizes[name] / DEFAULT_TICKS) / rate)
        slices = {
            name: SliceStatistics(
                str(one["title"]), *(_positive(f"{at} of {name}", one[at]) for at in ("rows", "slices", "keys"))
            )
            for name, one in raw.get("slices", {}).items()
        }
        return Statistics(
            sizes=sizes,
            selectivities=pairs,
            distinct=distinct,
            filters=filters,
            arrivals=arrivals,
            seconds=_positive("seconds", raw["seconds"]) if "seconds" in raw else 0.0,
            weights=figures("weights"),
            progress=progress,
            slices=slices,
            results=figures("results"),
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise ModelError(
            f"the statistics do not have the expected form: {problem!r}",
            hint='write {"sizes": {"r": 100}, "selectivities": [{"left": "r.a", "right": "s.a", "value": 0.01}]}',
        ) from None


def _column(name: str) -> Named:
    stream, dot, column = name.partition(".")
    if not dot:
        raise ModelError(f"{name} is not a column of a stream", hint="write stream.column")
    return stream, column


def _share(what: str, value: Any) -> float:
    share = _positive(what, value)
    if share > 1:
        raise ModelError(f"{what} is above 1")
    return share


def _positive(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _INFINITE:
        raise ModelError(f"{what} must be a finite number above 0, not {value!r}")
    return float(value)
