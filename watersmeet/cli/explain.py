"""Plans looked at without running them: `watersmeet explain`."""

from __future__ import annotations

from watersmeet.engine import Engine
from watersmeet.optimize.statistics import Statistics, read_statistics
from watersmeet.plan.formats import check_format, plan_text
from watersmeet.plan.planner import window_seconds


def show_plan(engine: Engine, statistics: str | None, kind: str) -> str:
    """The plan for the engine's queries and these statistics (JSON) in one of the formats."""
    check_format(kind)
    return plan_text(engine.plan(_known(engine, statistics)), kind)


def what_one_more_adds(engine: Engine, select: str, statistics: str | None) -> str:
    """What one more query costs beside those that are there, and what it would cost alone."""
    known = _known(engine, statistics)
    before = engine.plan(known) if engine.queries else None
    name = "what_if"
    engine.query(name, select)
    after = engine.plan(_known(engine, statistics))
    for other in engine.queries:
        if other.name != name:
            engine.drop(other.name)
    alone = engine.plan(known)
    added = after.cost - (before.cost if before else 0.0)
    old = {(step.start, step.joined, step.store) for step in before.steps} if before else set()
    new = [step for step in after.steps if (step.start, step.joined, step.store) not in old]
    lines = [
        f"cost now {before.cost if before else 0:,.0f}, with the query {after.cost:,.0f}: it adds {added:,.0f}",
        f"alone it would cost {alone.cost:,.0f}; sharing saves {alone.cost - added:,.0f}",
        f"{len(new)} new steps" + (":" if new else ""),
    ]
    lines += [
        f"  {step.start}: {step.joined} → {step.store} on {' and '.join(step.on)}: {step.cost:,.0f}" for step in new
    ]
    return "\n".join(lines)


def _known(engine: Engine, statistics: str | None) -> Statistics:
    if statistics is None:
        return Statistics()
    return read_statistics(statistics, window_seconds([handle.query for handle in engine.queries]))
