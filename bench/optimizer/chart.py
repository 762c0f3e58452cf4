"""A line chart as SVG, without a library."""

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
