"""A rendered plan as a drawing (SVG): a row for each stream, its probe tree from left to right."""

from __future__ import annotations

import math
from html import escape

from watersmeet.plan.render import TUPLES, RenderedPlan, RenderedStep

_COLUMN, _ROW, _WIDTH, _HEIGHT, _MARGIN = 250, 66, 190, 44, 24
_STYLE = """
  text { font: 12px sans-serif; fill: #1f2933 } .small { font-size: 10px; fill: #52606d }
  .stream { fill: #dbeafe; stroke: #2563eb } .materialized { fill: #fef3c7; stroke: #d97706 }
  .end { font-weight: bold; fill: #047857 } .edge { fill: none; stroke: #627d98 }
  .head { font-size: 14px; font-weight: bold }
"""


def draw(plan: RenderedPlan) -> str:
    """The plan as an SVG document; a thicker line costs more, a dashed one sends tuples to several partitions."""
    materialized = {store.name for store in plan.stores if store.materialized}
    children: dict[int | None, list[RenderedStep]] = {}
    for step in plan.steps:
        children.setdefault(step.parent, []).append(step)
    largest = max((step.cost for step in plan.steps), default=1.0)
    shapes: list[str] = []
    rows = deepest = 0

    def place(step: RenderedStep, depth: int, from_y: float) -> None:
        nonlocal rows, deepest
        row = rows
        below = children.get(step.number, [])
        x, y = _MARGIN + depth * _COLUMN, 90 + row * _ROW
        deepest = max(deepest, depth)
        thickness = 1 + 5 * math.sqrt(step.cost / largest) if largest else 1
        dashes = ' stroke-dasharray="6 4"' if step.copies > 1 else ""
        x0, y0, y1 = x - _COLUMN + _WIDTH, from_y + _HEIGHT / 2, y + _HEIGHT / 2
        shapes.append(
            f'<path class="edge" stroke-width="{thickness:.1f}"{dashes} '
            f'd="M {x0} {y0} C {x0 + 30} {y0}, {x - 30} {y1}, {x} {y1}"/>'
        )
        kind = "materialized" if step.store in materialized else "stream"
        title = f"{step.joined} probes {step.store} for {', '.join(step.serves)}"
        _box(shapes, x, y, kind, f"{step.store} · {plan.amount(step.cost)}", " and ".join(step.on), title)
        if step.ends:
            shapes.append(f'<text class="end" x="{x + 6}" y="{y + _HEIGHT + 13}">⇒ {escape(_short(step.ends))}</text>')
        for child in below:
            place(child, depth + 1, y)
        if not below:
            rows += 1

    for start in dict.fromkeys(step.start for step in plan.steps):
        y = 90 + rows * _ROW
        _box(shapes, _MARGIN, y, "stream", start, "arrives")
        for step in children.get(None, []):
            if step.start == start:
                place(step, 1, y)
    width, height = _MARGIN * 2 + (deepest + 1) * _COLUMN, 110 + rows * _ROW
    unit = " tuples" if plan.unit == TUPLES else " of CPU time a tick"
    head = f"cost {plan.amount(plan.cost)}{unit} ({plan.proof}); every query alone {plan.amount(plan.individual_cost)}"
    note = "blue: streams, yellow: materialized; width of a line: its cost; dashed: to several partitions"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<style>{_STYLE}</style><rect width='100%' height='100%' fill='white'/>"
        f'<text class="head" x="{_MARGIN}" y="32">{escape(head)}</text>'
        f'<text class="small" x="{_MARGIN}" y="54">{escape(note)}</text>{"".join(shapes)}</svg>\n'
    )


def _box(shapes: list[str], x: float, y: float, kind: str, first: str, second: str, title: str = "") -> None:
    shapes.append(
        f"<g><title>{escape(title or first)}</title>"
        f'<rect class="{kind}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + 8}" y="{y + 18}">{escape(first[:30])}</text>'
        f'<text class="small" x="{x + 8}" y="{y + 34}">{escape(second[:34])}</text></g>'
    )


def _short(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" +{len(names) - 3}" if len(names) > 3 else "")
