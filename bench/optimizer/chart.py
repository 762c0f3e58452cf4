"""Line charts and boxes as SVG, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT, MARGIN = 480, 300, 50
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#555555")

Line = Sequence[tuple[float, float]]


def chart(title: str, across: str, up: str, lines: Mapping[str, Line]) -> str:
    points = [point for line in lines.values() for point in line]
    right = max((x for x, _ in points), default=1.0)
    top = max((y for _, y in points), default=1.0) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            MARGIN + x / right * (WIDTH - 2 * MARGIN),
            HEIGHT - MARGIN - y / top * (HEIGHT - 2 * MARGIN),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-size="13">{escape(title)}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle"',
        f' transform="rotate(-90 14 {HEIGHT / 2})">{escape(up)}</text>',
        f'<path d="M{MARGIN} {MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        x, y = place(share * right, share * top)
        parts.append(f'<text x="{MARGIN - 5}" y="{y + 4}" text-anchor="end">{share * top:.4g}</text>')
        parts.append(f'<text x="{x}" y="{HEIGHT - MARGIN + 15}" text-anchor="middle">{share * right:.4g}</text>')
    for at, (name, line) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        track = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{track}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{MARGIN + 10}" y="{MARGIN + 14 * at}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def stacked(panels: Sequence[str]) -> str:
    """Several charts in one picture, one above the other."""
    placed = [
        panel.replace("<svg ", f'<svg y="{at * HEIGHT}" width="{WIDTH}" height="{HEIGHT}" ', 1)
        for at, panel in enumerate(panels)
    ]
    whole = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}">'
    return "\n".join([whole, *placed, "</svg>", ""])


def boxes(title: str, across: str, values: Mapping[str, Sequence[float]]) -> str:
    """Five quantiles of each name from left to right: a line from the first to the last, a box around the middle."""
    left, bar, gap = 170, 16, 12
    height = 50 + len(values) * (bar + gap) + 20
    most = max((found[-1] for found in values.values()), default=1.0) or 1.0

    def place(value: float) -> float:
        return left + value / most * (WIDTH - left - 40)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-size="13">{escape(title)}</text>',
        f'<text x="{WIDTH / 2}" y="{height - 4}" text-anchor="middle">{escape(across)}</text>',
        f'<path d="M{left} 30 V{height - 32} H{WIDTH - 40}" fill="none" stroke="black"/>',
    ]
    for share in (0.0, 0.5, 1.0):
        x = place(share * most)
        parts.append(f'<text x="{x:.1f}" y="{height - 18}" text-anchor="middle">{share * most:.3g}</text>')
    for at, (name, found) in enumerate(values.items()):
        top = 38 + at * (bar + gap)
        low, first, middle, third, high = map(place, found)
        colour = COLOURS[at % len(COLOURS)]
        parts += [
            f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>',
            f'<path d="M{low:.1f} {top + bar / 2} H{high:.1f}" stroke="{colour}"/>',
            f'<rect x="{first:.1f}" y="{top}" width="{max(1.0, third - first):.1f}" height="{bar}"',
            f' fill="white" stroke="{colour}" stroke-width="2"/>',
            f'<path d="M{middle:.1f} {top} v{bar}" stroke="{colour}" stroke-width="3"/>',
        ]
    return "\n".join([*parts, "</svg>", ""])
