"""The plan for a person."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.plan.ruleset import UNBOUNDED, Lookup, Ruleset, Start, Step


def explain_text(rules: Ruleset, measured: Mapping[str, int]) -> str:
    """Stores and probe trees as text; `measured` adds how many partial results each step took and made."""
    lines = [f"plan {rules.version}, {rules.partitions} place{'s' if rules.partitions > 1 else ''}", "", "stores"]
    for store in rules.stores:
        indexes = ", ".join(f"({', '.join(part.expression for part in key)})" for key in store.keys) or "none"
        place = f"; placed by {store.layout.expression}" if store.layout else ""
        filters = f"; filters {', '.join(store.filters)}" if store.filters else ""
        lines.append(f"  {store.stream}: indexes {indexes}{place}{filters}")
    lines += ["", "probe trees"]
    for start in rules.starts:
        lines.append(f"  {start.stream} arrives{_filters(start.filters)}{_serves(start)}")
        for step in start.steps:
            lines += _step(rules, step, [start.stream], measured, "    ")
    return "\n".join(lines)


def _step(rules: Ruleset, step: Step, path: list[str], measured: Mapping[str, int], indent: str) -> list[str]:
    joined = " and ".join(
        f"{_lookup(path, source)} = {part.expression}" for part, source in zip(step.key, step.sources, strict=True)
    )
    layout = rules.store(step.store).layout
    sent = "" if layout is None else " · to its place" if layout in step.key else " · to all places"
    window = "unbounded" if step.window >= UNBOUNDED else f"{step.window / 1e6:g} s"
    seen = ""
    if f"step_in/{step.id}" in measured:
        seen = f" · {measured[f'step_in/{step.id}']:,} in, {measured.get(f'step_out/{step.id}', 0):,} out"
    lines = [f"{indent}→ {step.store} [{window}] on {joined}{_filters(step.filters)}{sent}{seen}{_serves(step)}"]
    for below in step.steps:
        lines += _step(rules, below, [*path, step.store], measured, indent + "  ")
    return lines


def _lookup(path: list[str], lookup: Lookup) -> str:
    position, part = lookup
    return f"{path[position]}.{part.expression}" if part.column else part.expression


def _filters(filters: tuple[str, ...]) -> str:
    return f" where {' or '.join(filters)}" if filters else ""


def _serves(node: Start | Step) -> str:
    return f"  ⇒ {', '.join(emit.query for emit in node.emits)}" if node.emits else ""
