"""`plans.jsonl` in the home: every decision about the plan, one line each, with its reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import exp, log
from pathlib import Path

from watersmeet.home import layout
from watersmeet.home.files import advice_in, append_advice
from watersmeet.optimize.statistics import DEFAULT_SIZE, Named, Statistics
from watersmeet.plan.units import TUPLES

_LONGEST = 8 << 20
_TOLD = 2  # changes named in a reason
NOTICEABLE = 1.2  # times more or less
DRASTIC = 3.0  # the same
SEARCH_SHARE = 0.02  # of the CPU time of ticks, which a search may cost if the data has not changed drastically


@dataclass(frozen=True)
class Decision:
    tick: int  # the last one before it
    epoch: int
    kind: str  # start, queries, statistics
    reason: str
    adopted: bool
    plan: str  # the version that is active afterwards
    # CPU seconds a tick of the plan that was considered and of the one active before, by the same statistics and for
    # the same queries; gain and price are CPU seconds.
    cost: float
    cost_in_force: float | None = None
    gain: float = 0.0
    price: float = 0.0
    searcher: str = ""
    seconds: float = 0.0
    median_error: float = 1.0
    worst_error: float = 1.0
    materialized: tuple[str, ...] = ()  # by the plan that was considered
    unit: str = TUPLES  # of the costs; older versions, and plans by the costs of papers, count tuples


def record(home: Path, decision: Decision) -> None:
    append_advice(home / layout.PLANS, [asdict(decision)], _LONGEST)


def decisions(home: Path) -> list[Decision]:
    """The recorded decisions, the oldest first."""
    known = {part.name for part in fields(Decision)}
    found = []
    for raw in advice_in(home / layout.PLANS):
        try:
            given = {name: value for name, value in raw.items() if name in known}
            found.append(Decision(**{**given, "materialized": tuple(given["materialized"])}))
        except (TypeError, AttributeError, KeyError):  # of another version
            continue
    return found


Change = tuple[float, str]  # log of how many times more, and what


def changes(old: Statistics, new: Statistics) -> list[Change]:
    """How the statistics changed, the largest change first."""
    found: list[Change] = []
    for stream, size in new.sizes.items():
        found.append((log(max(size, 1e-9) / max(old.sizes.get(stream, DEFAULT_SIZE), 1e-9)), f"{stream} has"))
    for pair, value in new.selectivities.items():
        before = old.selectivities.get(pair)
        if before is None:
            # Nothing was known; what was assumed then is one partner for each probe.
            sizes = [old.sizes.get(stream, DEFAULT_SIZE) for stream, _ in pair]
            before = 1.0 / max(1.0, *sizes)
        found.append((log(value / before), f"{_equality(pair)} finds"))
    for name, share in new.filters.items():
        found.append((log(share / old.passing(name)), f"{name[0]} passes {name[1]} with"))
    for store, slices in new.slices.items():
        if store in old.slices:
            found.append((log(slices.keys / old.slices[store].keys), f"{slices.title}: a window has"))
    return sorted(found, key=lambda change: (-abs(change[0]), change[1]))


def largest(old: Statistics, new: Statistics) -> float:
    """How many times more or less the figure is that changed most."""
    found = changes(old, new)
    return exp(abs(found[0][0])) if found else 1.0


def is_worth_a_search(old: Statistics, new: Statistics, searched: float, worked: float) -> bool:
    """Whether a plan is searched for again, after a search that took so many seconds, and since which tasks took so
    many. What grows slowly (a store of all history) would be a reason again and again, and nothing gained."""
    return largest(old, new) >= (NOTICEABLE if searched <= SEARCH_SHARE * worked else DRASTIC)


def reason(old: Statistics, new: Statistics) -> str:
    told = [change for change in changes(old, new) if exp(abs(change[0])) >= NOTICEABLE][:_TOLD]
    if not told:
        return "the data is unchanged; the search found a cheaper plan"
    return "; ".join(_text(*change) for change in told)


def _text(change: float, what: str) -> str:
    times = exp(abs(change))
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
    kind = "partners" if what.endswith("finds") else "keys" if what.endswith("a window has") else "rows"
    return f"{what} {shown} times {'more' if change > 0 else 'fewer'} {kind} than estimated"


def _equality(pair: frozenset[Named]) -> str:
    ends = sorted(".".join(end) for end in pair)
    return f"{ends[0]} = {ends[-1]}"
