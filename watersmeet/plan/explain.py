"""A rendered plan as text: first what people ask, last what it costs."""

from __future__ import annotations

from watersmeet.plan.assumed import assumed_mark
from watersmeet.plan.render_leaves import RenderedCheck
from watersmeet.plan.render_links import WITHOUT_KEY
from watersmeet.plan.rendered import RenderedPlan, RenderedStep
from watersmeet.plan.shown_windows import windows_text
from watersmeet.plan.units import SECONDS, names_text, seconds_text


def explain(plan: RenderedPlan) -> str:
    """What is shared and what that saves, the steps with the queries that they serve, the stores; then the costs."""
    first, *others = plan.summary
    lines = [first, *(f"  {line}" for line in others)]
    if plan.starts:
        lines += _trees(plan)
    if plan.checks:
        lines += ["", "leaf checks"]
        lines += [_check_line(plan, check) for check in plan.checks]
    lines += windows_text(plan.windows, plan.slices)
    if plan.stores:
        lines += ["", "stores, each for all queries that it serves"]
    for store in plan.stores:
        kind = "materialized, " if store.materialized else ""
        serves = f"  ⇒ {names_text(store.serves)}" if store.serves else ""
        size = f"{store.size:,.0f} tuples{assumed_mark(store.assumed)}"
        lines.append(f"  {store.name}: {kind}{size}{_spread(store.layouts)}{serves}")
    if plan.by_spark:
        lines += ["", "computed by Spark when rows arrive: slower, because every tick with such rows runs a Spark job"]
        lines += [f"  {stream}: {call}" for stream, call in plan.by_spark]
    lines += _costs(plan)
    return "\n".join(lines)


def _trees(plan: RenderedPlan) -> list[str]:
    lines = ["", "steps: what the rows of a stream probe when they arrive (⇒ a result is complete)"]
    for start, steps in plan.trees:
        lines.append(f"  {start.name} arrives{_ends(start.ends)}")
        for step in steps:
            lines += _lines(plan, step, "    ")
    return lines


def _costs(plan: RenderedPlan) -> list[str]:
    lines = ["", "costs"]
    if plan.starts:
        partitions = f"{plan.partitions} partitions" if plan.partitions > 1 else "1 partition"
        lines += [
            f"  plan by {plan.searcher or 'hand'} for {partitions}",
            f"  cost {plan.cost_text} ({plan.proof}); every query alone {plan.amount(plan.individual_cost)}",
            f"  probing {plan.amount(plan.probe_cost)}, shipping {plan.amount(plan.shipping)}; "
            f"storage {plan.storage_cost:,.0f} tuples",
        ]
    if plan.window_cost:
        lines.append(
            f"  windows {plan.amount(plan.window_cost)} of CPU time a tick{assumed_mark(plan.assumes_windows)}"
        )
    if plan.unit == SECONDS and (plan.starts or plan.windows):
        lines += _cpu_time(plan)
    if plan.over_budget:
        lines.append(
            f"  the streams alone exceed the storage budget by {plan.over_budget:,.0f} tuples: nothing else is stored"
        )
    if plan.unpriced:
        lines.append(f"  not in these costs: {names_text(plan.unpriced)}; windows have no cost in tuples")
    return lines


def _cpu_time(plan: RenderedPlan) -> list[str]:
    phases = f", {plan.phases} phases" if plan.phases > 1 else ""
    ticks = f"{plan.ticks:,.0f} ticks{assumed_mark(plan.assumed.ticks)}"
    parts = ", ".join(f"{part} {seconds_text(seconds)}" for part, seconds in plan.estimate.items() if seconds)
    lines = [
        *([f"  {plan.tuples:,.0f} tuples sent in a tick{phases}; {ticks} renew the windows"] if plan.starts else []),
        f"  a tick takes about {seconds_text(sum(plan.estimate.values()))} of CPU time: {parts}",
    ]
    if plan.tick_seconds:
        share = sum(plan.estimate.values()) / plan.tick_seconds
        lines.append(f"  that is {seconds_text(share)} for a second of input")
    return lines


def _check_line(plan: RenderedPlan, check: RenderedCheck) -> str:
    """Which rows are looked up where, and when: an absence is known when no partner can come any more."""
    how = "" if check.by == "hash" else f" by {check.by}"
    measured = (
        f", measured {check.measured_in:,} in {check.measured_out:,} out" if check.measured_in is not None else ""
    )
    return (
        f"  {check.preserved} {check.wanted}{how} on {' and '.join(check.on)}, {check.when}: "
        f"{plan.cost_of(check)}{measured}  ⇒ {names_text(check.serves)}"
    )


def _lines(plan: RenderedPlan, step: RenderedStep, indent: str) -> list[str]:
    sent = f", to {step.copies} partitions" if step.copies > 1 else ""
    measured = f", measured {step.measured_in:,} in {step.measured_out:,} out" if step.measured_in is not None else ""
    if step.measured_seconds is not None and step.estimated_seconds is not None:
        estimated = seconds_text(step.estimated_seconds)
        measured += f" in {seconds_text(step.measured_seconds)} ({estimated} estimated)"
    others = tuple(name for name in step.serves if name not in step.ends)
    shared = (
        f"  (shared {'with' if step.ends else 'by'} {names_text(others)})" if others and len(step.serves) > 1 else ""
    )
    how = "" if step.by == "hash" else f" by {step.by}"
    found = f"{plan.cost_of(step)}{sent}{measured}"
    head = f"{indent}→ {step.store}{how} on {' and '.join(step.on)}: {found}{_ends(step.ends)}{shared}"
    below = (line for one in plan.below.get(step.number, []) for line in _lines(plan, one, indent + "  "))
    return [head, *below]


def _ends(names: tuple[str, ...]) -> str:
    return f"  ⇒ {names_text(names)}" if names else ""


def _spread(layouts: tuple[str, ...]) -> str:
    if not layouts or layouts[0].startswith(WITHOUT_KEY):
        return "".join(f", {layout}" for layout in layouts)
    return f", hash-partitioned by {' and '.join(layouts)}"
