"""A rendered plan as text."""

from __future__ import annotations

from watersmeet.plan.render import WITHOUT_KEY, Alternative, RenderedPlan, RenderedStep


def explain(plan: RenderedPlan) -> str:
    """Costs, stores and probe trees. A step names what it joins on, its cost, and the queries that it serves."""
    partitions = f"{plan.partitions} partitions" if plan.partitions > 1 else "1 partition"
    lines = [
        f"plan by {plan.searcher or 'hand'} for {partitions}",
        f"  cost {plan.cost:,.0f} tuples sent ({plan.proof}); every query alone {plan.individual_cost:,.0f}",
        f"  probing {plan.probe_cost:,.0f}, shipping {plan.shipping:,.0f}; storage {plan.storage_cost:,.0f} tuples",
    ]
    if plan.over_budget:
        lines.append(
            f"  the streams alone exceed the storage budget by {plan.over_budget:,.0f} tuples: nothing else is stored"
        )
    if plan.alternatives:
        lines += ["", "costs with and without materialized results (estimated tuples)"]
        shown = (Alternative("this plan", plan.probe_cost, plan.shipping, plan.storage_cost), *plan.alternatives)
        lines += [
            f"  {one.name}: probing {one.probe_cost:,.0f}, shipping {one.shipping:,.0f}, "
            f"storage {one.storage_cost:,.0f}"
            for one in shown
        ]
    if plan.trees:
        lines += ["", "operator trees, results in brackets are materialized"]
        lines += [f"  {query}: {tree}" for query, tree in plan.trees]
    lines += ["", "stores"]
    for store in plan.stores:
        kind = "materialized, " if store.materialized else ""
        serves = f"  ⇒ {_names(store.serves)}" if store.serves else ""
        lines.append(f"  {store.name}: {kind}{store.size:,.0f} tuples{_spread(store.layouts)}{serves}")
    if plan.by_spark:
        lines += ["", "computed by Spark when rows arrive: slower, because every tick with such rows runs a Spark job"]
        lines += [f"  {stream}: {call}" for stream, call in plan.by_spark]
    lines += ["", "probe trees"]
    children: dict[int | None, list[RenderedStep]] = {}
    for step in plan.steps:
        children.setdefault(step.parent, []).append(step)
    for start in dict.fromkeys(step.start for step in plan.steps):
        lines.append(f"  {start} arrives")
        for step in children.get(None, []):
            if step.start == start:
                lines += _lines(step, children, "    ")
    return "\n".join(lines)


def _lines(step: RenderedStep, children: dict[int | None, list[RenderedStep]], indent: str) -> list[str]:
    sent = f", to {step.copies} partitions" if step.copies > 1 else ""
    measured = f", measured {step.measured_in:,} in {step.measured_out:,} out" if step.measured_in is not None else ""
    ends = f"  ⇒ {_names(step.ends)}" if step.ends else ""
    shared = f"  (serves {len(step.serves)})" if len(step.serves) > 1 else ""
    how = "" if step.by == "hash" else f" by {step.by}"
    head = f"{indent}→ {step.store}{how} on {' and '.join(step.on)}: {step.cost:,.0f}{sent}{measured}{ends}{shared}"
    return [head, *(line for below in children.get(step.number, []) for line in _lines(below, children, indent + "  "))]


def _spread(layouts: tuple[str, ...]) -> str:
    if not layouts or layouts[0].startswith(WITHOUT_KEY):
        return "".join(f", {layout}" for layout in layouts)
    return f", hash-partitioned by {' and '.join(layouts)}"


def _names(names: tuple[str, ...], limit: int = 8) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
