"""`plans.jsonl` in the home: every decision about the plan, one line each, with its reason."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from math import exp, log
from pathlib import Path

from watersmeet.optimize.statistics import DEFAULT_SIZE, Named, Statistics

PLANS = "plans.jsonl"
_LONGEST = 8 << 20
_TOLD = 2  # changes named in a reason
NOTICEABLE = 1.2  # times more or less


@dataclass(frozen=True)
class Decision:
    tick: int  # the last one before it
    epoch: int
    kind: str  # start, queries, statistics
    reason: str
    adopted: bool
    plan: str  # the version that is in force afterwards
    # Running costs (`plan/comparison.py`) of the plan that was considered, and of the one in force before, by the
    # same statistics and for the same queries.
    cost: float
    cost_in_force: float | None = None
    gain: float = 0.0
    price: float = 0.0
    searcher: str = ""
    seconds: float = 0.0
    median_error: float = 1.0
    worst_error: float = 1.0
    materialized: tuple[str, ...] = ()  # by the plan that was considered


def record(home: Path, decision: Decision) -> None:
    path = home / PLANS
    if path.exists() and path.stat().st_size > _LONGEST:
        path.replace(path.with_suffix(".old"))
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            cut_off = file.read(1) != b"\n"
        else:
            cut_off = False
        file.write(b"\n" * cut_off + json.dumps(asdict(decision)).encode() + b"\n")


def decisions(home: Path) -> list[Decision]:
    """What is told there, the oldest first; a line that was cut off by a crash is left out."""
    return list(_read(home / PLANS)) if (home / PLANS).exists() else []


def _read(path: Path) -> Iterator[Decision]:
    known = {part.name for part in fields(Decision)}
    for line in path.read_text().splitlines():
        try:
            raw = json.loads(line)
            given = {name: value for name, value in raw.items() if name in known}
            decision = Decision(**{**given, "materialized": tuple(given["materialized"])})
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
        yield decision


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
    return sorted(found, key=lambda change: (-abs(change[0]), change[1]))


def largest(old: Statistics, new: Statistics) -> float:
    """How many times more or less the figure is that changed most."""
    found = changes(old, new)
    return exp(abs(found[0][0])) if found else 1.0


def reason(old: Statistics, new: Statistics) -> str:
    told = [change for change in changes(old, new) if exp(abs(change[0])) >= NOTICEABLE][:_TOLD]
    if not told:
        return "the data is as it was; the search found a cheaper plan"
    return "; ".join(_text(*change) for change in told)


def _text(change: float, what: str) -> str:
    times = exp(abs(change))
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.1f}"
    kind = "rows" if what.endswith("has") else "partners"
    return f"{what} {shown} times {'more' if change > 0 else 'fewer'} {kind} than thought"


def _equality(pair: frozenset[Named]) -> str:
    ends = sorted(".".join(end) for end in pair)
    return f"{ends[0]} = {ends[-1]}"
