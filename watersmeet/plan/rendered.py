"""A plan as one plain value, which is shown as text, JSON or a drawing. Costs are those of its weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from watersmeet.plan.assumed import Assumed, assumed_mark
from watersmeet.plan.render_leaves import RenderedCheck
from watersmeet.plan.shown_windows import ShownSlices, ShownWindows
from watersmeet.plan.units import SECONDS, TUPLES, seconds_text


@dataclass(frozen=True)
class RenderedStore:
    name: str
    materialized: bool
    size: float  # estimated tuples
    layouts: tuple[str, ...]
    serves: tuple[str, ...]
    assumed: bool = False  # the size is


@dataclass(frozen=True)
class RenderedStart:
    """Rows of a relation as they arrive: the root of a probe tree."""

    name: str
    size: float  # estimated tuples in its window
    assumed: bool
    ends: tuple[str, ...]  # queries without a join


@dataclass(frozen=True)
class RenderedStep:
    number: int
    parent: int | None
    start: str
    joined: str  # what the partial results cover before the step
    store: str
    on: tuple[str, ...]
    by: str  # hash, range or scan: how the rows are found
    copies: int  # partitions that each partial result is sent to
    cost: float  # in the unit of the plan
    tuples: float  # that are sent to its partitions, estimated
    serves: tuple[str, ...]  # queries, and materialized stores
    ends: tuple[str, ...]  # those that are complete after this step
    assumed: bool = False  # its cost and tuples are
    measured_in: int | None = None
    measured_out: int | None = None
    measured_seconds: float | None = None  # of CPU time,
    estimated_seconds: float | None = None  # and what was expected for as many partial results


@dataclass(frozen=True)
class Sharing:
    """What queries share: each figure beside the one that it would be if no query shared anything."""

    queries: int = 0
    streams: int = 0
    steps: int = 0
    steps_alone: int = 0
    shared_steps: int = 0  # those that serve several queries
    stores: int = 0  # of streams and materialized results
    stores_alone: int = 0
    slices: int = 0  # stores of partial aggregates
    slices_alone: int = 0

    @property
    def lines(self) -> list[str]:
        """The beginning of explain and of the drawing."""
        counted = f"{_count(self.queries, 'query', 'queries')} over {_count(self.streams, 'stream', 'streams')}"
        several = f", {self.shared_steps:,} of them for several queries" if self.shared_steps else ""
        found = (
            _shared(self.steps, self.steps_alone, "step", "steps", several),
            _shared(self.stores, self.stores_alone, "store", "stores"),
            _shared(self.slices, self.slices_alone, "store of slices", "stores of slices"),
        )
        return [counted, *(line for line in found if line)]


@dataclass(frozen=True)
class RenderedPlan:
    """Costs are CPU seconds of a tick, or tuples sent where they are those of the papers."""

    searcher: str
    partitions: int
    unit: str  # seconds or tuples
    probe_cost: float
    shipping: float
    storage_cost: float
    cost: float
    bound: float
    individual_cost: float
    optimal: bool
    seconds: float
    stores: tuple[RenderedStore, ...]
    steps: tuple[RenderedStep, ...]
    over_budget: float  # tuples by which the streams alone exceed the storage budget; 0: they do not
    tuples: float  # that are sent to probes: in a tick, or while the windows are renewed once
    phases: int
    ticks: float  # in which the windows are renewed once
    tick_seconds: float  # from one tick to the next; 0: unknown
    estimate: dict[str, float]  # CPU seconds of a tick, by what is done
    by_spark: tuple[tuple[str, str], ...] = ()  # streams, and what Spark computes of their rows
    checks: tuple[RenderedCheck, ...] = ()  # of queries with leaves
    windows: tuple[ShownWindows, ...] = ()  # windowed queries
    slices: tuple[ShownSlices, ...] = ()
    starts: tuple[RenderedStart, ...] = ()
    sharing: Sharing = field(default_factory=Sharing)
    assumed: Assumed = field(default_factory=Assumed)
    unpriced: tuple[str, ...] = ()  # windowed queries whose cost is not known, where costs are those of the papers
    window_cost: float = 0.0  # CPU seconds of a tick that the windows of all queries take, besides the cost of joins

    def amount(self, cost: float) -> str:
        """A cost as people read it."""
        return f"{cost:,.0f}" if self.unit == TUPLES else seconds_text(cost)

    def cost_of(self, one: RenderedStep | RenderedCheck) -> str:
        """What a step or a leaf check costs, as people read it."""
        tuples = f", {one.tuples:,.0f} tuples" if isinstance(one, RenderedStep) and self.unit == SECONDS else ""
        return f"{self.amount(one.cost)}{tuples}{assumed_mark(one.assumed)}"

    @cached_property
    def below(self) -> dict[int | None, list[RenderedStep]]:
        """The steps that follow each step, by its number; under None those that follow a start."""
        found: dict[int | None, list[RenderedStep]] = {}
        for step in self.steps:
            found.setdefault(step.parent, []).append(step)
        return found

    @property
    def trees(self) -> list[tuple[RenderedStart, list[RenderedStep]]]:
        """For each start the steps that follow it."""
        first = self.below.get(None, [])
        return [(start, [step for step in first if step.start == start.name]) for start in self.starts]

    @property
    def whole_cost(self) -> float:
        """The cost of joins and windows."""
        return self.cost + self.window_cost

    @property
    def assumes_windows(self) -> bool:
        """Whether the cost of windows follows from something that is assumed."""
        return any(query.assumed for query in self.windows)

    @property
    def proof(self) -> str:
        """What is known of the cost of better plans."""
        if self.optimal:
            return f"proven optimal{' for what is assumed' if self.assumed.text else ''}"
        return f"no plan costs less than {self.amount(self.bound)}" if self.bound else "no bound known"

    @property
    def cost_text(self) -> str:
        """The cost with its unit, or nothing where no query joins."""
        if not self.starts:
            return ""
        unit = "tuples sent" if self.unit == TUPLES else "of CPU time a tick"
        return f"{self.amount(self.cost)} {unit}"

    @property
    def saving(self) -> str:
        """What sharing saves, in words."""
        if not self.steps:
            return ""
        saved = self.individual_cost - self.cost
        share = f"{100 * saved / self.individual_cost:.0f} % of the cost of the joins" if saved > 0 else "nothing"
        alone = f"every query alone {self.amount(self.individual_cost)}"
        return f"sharing saves {share}: {self.cost_text}, {alone}{assumed_mark(bool(self.assumed.text))}"

    @property
    def summary(self) -> list[str]:
        """What explain and the drawing begin with: what is shared, what that saves, and what is assumed."""
        assumed = f"assumed, because it is not known yet: {self.assumed.text}" if self.assumed.text else ""
        return [line for line in (*self.sharing.lines, self.saving, assumed) if line]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _shared(number: int, alone: int, one: str, many: str, several: str = "") -> str:
    if not number:
        return ""
    return f"{_count(number, one, many)}{f' instead of {alone:,}' if alone > number else ''}{several}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
