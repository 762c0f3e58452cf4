"""A rendered plan as a drawing (SVG): the probe trees from left to right, then leaf checks and windowed queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from watersmeet.plan.assumed import assumed_mark
from watersmeet.plan.boxes import HEAD, SMALL, STYLES, TITLE, Box, Style, box, curve, text_at, text_width, wrapped
from watersmeet.plan.rendered import RenderedPlan, RenderedStart, RenderedStep
from watersmeet.plan.shown_windows import JOINED, ShownSlices, ShownWindows, cost_text
from watersmeet.plan.units import length_text

_MARGIN, _BETWEEN, _GAP, _LEAST = 24.0, 56.0, 16.0, 760.0
_STYLE = """
  text { font-family: sans-serif; fill: #1f2933 } .small { fill: #52606d } .end { fill: #047857 }
  .stream, .shared { fill: #dbeafe; stroke: #2563eb } .shared { stroke-width: 3 }
  .arriving { fill: white; stroke: #2563eb }
  .materialized { fill: #fef3c7; stroke: #d97706 } .slices { fill: #ede9fe; stroke: #7c3aed }
  .windowed { fill: #d1fae5; stroke: #047857 } .edge { fill: none; stroke: #829ab1 }
"""
_JOINS = (
    "white: rows that arrive; blue: a store that they probe, with a thick frame for several queries; yellow: a "
    "materialized result; ⇒ the results of a query are complete; a thicker line costs more, a dashed one goes to "
    "several partitions"
)


@dataclass
class _Canvas:
    """Shapes from the top down, and how wide they are."""

    shapes: list[str] = field(default_factory=list)
    y: float = _MARGIN
    right: float = _LEAST

    def put(self, one: Box, x: float, y: float, width: float) -> None:
        self.shapes.append(one.drawn(x, y, width))
        self.right = max(self.right, x + width)

    def texts(self, lines: Sequence[str], style: Style = SMALL) -> None:
        for line in lines:
            self.y += style.line
            self.shapes.append(text_at(_MARGIN, self.y, line, style))
            self.right = max(self.right, _MARGIN + text_width(line, style))


def draw(plan: RenderedPlan) -> str:
    """The plan as an SVG document with all queries."""
    canvas = _Canvas()
    first, *others = plan.summary
    canvas.texts([first], HEAD)
    for line in others:
        canvas.texts([*wrapped(line, SMALL, _LEAST - _MARGIN)])
    if plan.starts:
        _section(canvas, "joins", _JOINS)
        _trees(canvas, plan)
    if plan.checks:
        _section(canvas, "leaf checks", "")
        _checks(canvas, plan)
    if plan.windows:
        _section(canvas, "windowed queries", "purple: partial aggregates of slices; blue: rows; costs of a tick")
        _windows(canvas, plan)
    width, height = canvas.right + _MARGIN, canvas.y + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}{STYLES}</style>'
        f"<rect width='100%' height='100%' fill='white'/>{''.join(canvas.shapes)}</svg>\n"
    )


def _section(canvas: _Canvas, title: str, note: str) -> None:
    canvas.y += 18
    canvas.texts([title], TITLE)
    canvas.texts([*wrapped(note, SMALL, _LEAST - _MARGIN)])
    canvas.y += 12


def _trees(canvas: _Canvas, plan: RenderedPlan) -> None:
    boxes = {step.number: _step_box(plan, step) for step in plan.steps}
    largest = max((step.cost for step in plan.steps), default=0.0)
    widths: list[float] = []  # by depth, the same for all trees

    def measure(one: Box, depth: int, below: Sequence[RenderedStep]) -> None:
        widths.extend([0.0] * (depth + 1 - len(widths)))
        widths[depth] = max(widths[depth], one.width)
        for step in below:
            measure(boxes[step.number], depth + 1, plan.below.get(step.number, []))

    def place(one: Box, depth: int, below: Sequence[RenderedStep]) -> float:
        """Draw a tree with its top at the canvas' y; returns the middle of the box at its root."""
        x = _MARGIN + sum(widths[:depth]) + depth * _BETWEEN
        top, middle = canvas.y, canvas.y + one.frame / 2
        canvas.put(one, x, top, widths[depth])
        for step in below:
            there = place(boxes[step.number], depth + 1, plan.below.get(step.number, []))
            thickness = 1 + 3 * math.sqrt(step.cost / largest) if largest else 1.0
            right = x + widths[depth]
            canvas.shapes.append(curve((right, middle), (right + _BETWEEN, there), thickness, step.copies > 1))
        canvas.y = max(canvas.y, top + one.height + _GAP)
        return middle

    roots = [(_start_box(start), steps) for start, steps in plan.trees]
    for one, below in roots:
        measure(one, 0, below)
    for one, below in roots:
        place(one, 0, below)


def _start_box(start: RenderedStart) -> Box:
    details = ("arrives", f"{start.size:,.0f} tuples in its window{assumed_mark(start.assumed)}")
    return box("arriving", start.name, details, start.ends)


def _step_box(plan: RenderedPlan, step: RenderedStep) -> Box:
    materialized = any(store.name == step.store and store.materialized for store in plan.stores)
    shared = len(step.serves) > 1
    first, *others = step.on or ("every pair",)
    details = [first, *(f"and {other}" for other in others)]
    if step.by != "hash":
        details.append(f"by {step.by}")
    details.append(plan.cost_of(step))
    if step.copies > 1:
        details.append(f"to {step.copies} partitions")
    if shared:
        details.append(f"shared by {len(step.serves)}")
    kind = "materialized" if materialized else "shared" if shared else "stream"
    title = f"{step.joined} probes {step.store} for {', '.join(step.serves)}"
    return box(kind, step.store, details, step.ends, title)


def _checks(canvas: _Canvas, plan: RenderedPlan) -> None:
    pairs = []
    for check in plan.checks:
        details = (" and ".join(check.on), check.when, plan.cost_of(check))
        pairs.append((box("arriving", check.preserved), box("stream", check.wanted, details, check.serves)))
    left, right = (max(pair[at].width for pair in pairs) for at in (0, 1))
    for preserved, found in pairs:
        canvas.put(preserved, _MARGIN, canvas.y, left)
        canvas.put(found, _MARGIN + left + _BETWEEN, canvas.y, right)
        ends = canvas.y + preserved.frame / 2, canvas.y + found.frame / 2
        right_of = _MARGIN + left
        canvas.shapes.append(curve((right_of, ends[0]), (right_of + _BETWEEN, ends[1])))
        canvas.y += max(preserved.height, found.height) + _GAP


def _windows(canvas: _Canvas, plan: RenderedPlan) -> None:
    """Three columns: streams, what is stored of them, queries."""
    slices = sorted(plan.slices, key=lambda store: (store.source, store.keys, store.name))
    by_rows = [query for query in plan.windows if not query.slices]
    rows = {f"rows {stream}": stream for stream in sorted({name for query in by_rows for name in query.streams})}
    sources = sorted({*rows.values(), *(store.source for store in slices)})
    stored = {store.name: _slices_box(store) for store in slices}
    stored |= {name: box("stream", f"rows of {stream}", ("of each window",)) for name, stream in rows.items()}
    read = {query.name: query.slices or tuple(f"rows {name}" for name in query.streams) for query in plan.windows}
    places = list(stored)
    ordered = sorted(plan.windows, key=lambda query: min(map(places.index, read[query.name])))
    edges = [(store.source, store.name) for store in slices]
    edges += [(stream, name) for name, stream in rows.items()]
    edges += [(name, query) for query, names in read.items() for name in names]
    columns = (
        {name: box("arriving", JOINED if name.startswith("results ") else name) for name in sources},
        stored,
        {query.name: box("windowed", query.name, _details(query)) for query in ordered},
    )
    _columns(canvas, columns, edges)


def _slices_box(store: ShownSlices) -> Box:
    keys = f" by {', '.join(store.keys)}" if store.keys else ""
    where = (f"where {' or '.join(store.filters)}",) if store.filters else ()
    title = f"{store.name} for {', '.join(store.serves)}"
    cost = (cost_text(store),) if store.cost else ()
    details = (*where, ", ".join(store.parts), *cost)
    return box("slices", f"{length_text(store.width)} slices{keys}", details, title=title)


def _details(query: ShownWindows) -> tuple[str, ...]:
    return (
        query.length,
        query.form,
        *((query.change,) if query.leaves else ()),
        *((cost_text(query),) if query.cost else ()),
    )


def _columns(canvas: _Canvas, columns: Sequence[dict[str, Box]], edges: Sequence[tuple[str, str]]) -> None:
    top, x = canvas.y, _MARGIN
    ends: list[dict[str, tuple[float, float, float]]] = []  # left, right and middle of each box
    for column in columns:
        width = max((one.width for one in column.values()), default=0.0)
        canvas_y, found = top, {}
        for name, one in column.items():
            canvas.put(one, x, canvas_y, width)
            found[name] = (x, x + width, canvas_y + one.frame / 2)
            canvas_y += one.height + _GAP
        canvas.y = max(canvas.y, canvas_y)
        ends.append(found)
        x += width + _BETWEEN if column else 0.0
    for begin, end in edges:
        _, x0, y0 = next(found[begin] for found in ends[:-1] if begin in found)
        x1, _, y1 = next(found[end] for found in ends[1:] if end in found)
        canvas.shapes.append(curve((x0, y0), (x1, y1)))
