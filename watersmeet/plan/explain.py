"""A rendered plan as text."""

from __future__ import annotations

from watersmeet.plan.render import (
    SECONDS,
    TUPLES,
    WITHOUT_KEY,
    Alternative,
    RenderedPlan,
    RenderedStep,
    seconds_text,
)
from watersmeet.plan.render_leaves import RenderedCheck
from watersmeet.plan.shown_windows import windows_text


def explain(plan: RenderedPlan) -> str:
    """Costs, stores and probe trees. A step names what it joins on, its cost, and the queries that it serves."""
    partitions = f"{plan.partitions} partitions" if plan.partitions > 1 else "1 partition"
    lines = [
        f"plan by {plan.searcher or 'hand'} for {partitions}",
        f"  cost {_cost(plan, plan.cost)} ({plan.proof}); every query alone {plan.amount(plan.individual_cost)}",
        f"  probing {plan.amount(plan.probe_cost)}, shipping {plan.amount(plan.shipping)}; "
        f"storage {plan.storage_cost:,.0f} tuples",
    ]
    if plan.unit == SECONDS:
        phases = f", {plan.phases} phases" if plan.phases > 1 else ""
        lines.append(f"  {plan.tuples:,.0f} tuples sent in a tick{phases}; {plan.ticks:,.0f} ticks renew the windows")
        parts = ", ".join(f"{part} {seconds_text(seconds)}" for part, seconds in plan.estimate.items())
        lines.append(f"  a tick takes about {seconds_text(sum(plan.estimate.values()))} of CPU time: {parts}")
        if plan.tick_seconds:
            share = sum(plan.estimate.values()) / plan.tick_seconds
            lines.append(f"  that is {seconds_text(share)} for a second of input")
    if plan.over_budget:
        lines.append(
            f"  the streams alone exceed the storage budget by {plan.over_budget:,.0f} tuples: nothing else is stored"
        )
    if plan.alternatives:
        lines += ["", "costs with and without materialized results"]
        shown = (Alternative("this plan", plan.probe_cost, plan.shipping, plan.storage_cost), *plan.alternatives)
        lines += [
            f"  {one.name}: probing {plan.amount(one.probe_cost)}, shipping {plan.amount(one.shipping)}, "
            f"storage {one.storage_cost:,.0f}"
            for one in shown
        ]
    if plan.trees:
        lines += ["", "operator trees, results in brackets are materialized"]
        lines += [f"  {query}: {tree}" for query, tree in plan.trees]
    lines += ["", "stores"] if plan.stores or not plan.windows else []
    for store in plan.stores:
        kind = "materialized, " if store.materialized else ""
        serves = f"  ⇒ {_names(store.serves)}" if store.serves else ""
        lines.append(f"  {store.name}: {kind}{store.size:,.0f} tuples{_spread(store.layouts)}{serves}")
    if plan.by_spark:
        lines += ["", "computed by Spark when rows arrive: slower, because every tick with such rows runs a Spark job"]
        lines += [f"  {stream}: {call}" for stream, call in plan.by_spark]
    lines += windows_text(plan.windows, plan.slices)
    if plan.steps or not plan.windows:
        lines += _trees(plan)
    if plan.checks:
        lines += ["", "leaf checks"]
        lines += [_check_line(plan, check) for check in plan.checks]
    return "\n".join(lines)


def _trees(plan: RenderedPlan) -> list[str]:
    lines = ["", "probe trees"]
    children: dict[int | None, list[RenderedStep]] = {}
    for step in plan.steps:
        children.setdefault(step.parent, []).append(step)
    for start in dict.fromkeys(step.start for step in plan.steps):
        lines.append(f"  {start} arrives")
        for step in children.get(None, []):
            if step.start == start:
                lines += _lines(plan, step, children, "    ")
    return lines


def _check_line(plan: RenderedPlan, check: RenderedCheck) -> str:
    """Which rows are looked up where, and when: an absence is known when no partner can come any more."""
    have = "with" if check.wants_partner else "without"
    when = (
        "first partner or last row arrives" if check.wants_partner else f"watermark of {check.leaf} passes the deadline"
    )
    how = "" if check.by == "hash" else f" by {check.by}"
    measured = (
        f", measured {check.measured_in:,} in {check.measured_out:,} out" if check.measured_in is not None else ""
    )
    return (
        f"  {check.preserved} {have} a partner in {check.leaf}{how} on {' and '.join(check.on)}, when the {when}: "
        f"{plan.amount(check.cost)}{measured}  ⇒ {_names(check.serves)}"
    )


def _cost(plan: RenderedPlan, cost: float) -> str:
    return f"{plan.amount(cost)} tuples sent" if plan.unit == TUPLES else f"{plan.amount(cost)} of CPU time a tick"


def _lines(
    plan: RenderedPlan, step: RenderedStep, children: dict[int | None, list[RenderedStep]], indent: str
) -> list[str]:
    tuples = f", {step.tuples:,.0f} tuples" if plan.unit == SECONDS else ""
    sent = f", to {step.copies} partitions" if step.copies > 1 else ""
    measured = f", measured {step.measured_in:,} in {step.measured_out:,} out" if step.measured_in is not None else ""
    if step.measured_seconds is not None and step.estimated_seconds is not None:
        estimated = seconds_text(step.estimated_seconds)
        measured += f" in {seconds_text(step.measured_seconds)} ({estimated} estimated)"
    ends = f"  ⇒ {_names(step.ends)}" if step.ends else ""
    shared = f"  (serves {len(step.serves)})" if len(step.serves) > 1 else ""
    how = "" if step.by == "hash" else f" by {step.by}"
    cost = f"{plan.amount(step.cost)}{tuples}"
    head = f"{indent}→ {step.store}{how} on {' and '.join(step.on)}: {cost}{sent}{measured}{ends}{shared}"
    below = (line for one in children.get(step.number, []) for line in _lines(plan, one, children, indent + "  "))
    return [head, *below]


def _spread(layouts: tuple[str, ...]) -> str:
    if not layouts or layouts[0].startswith(WITHOUT_KEY):
        return "".join(f", {layout}" for layout in layouts)
    return f", hash-partitioned by {' and '.join(layouts)}"


def _names(names: tuple[str, ...], limit: int = 8) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
