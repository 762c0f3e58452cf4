"""`python -m bench.windows.picture` draws docs/pictures/slices.svg: how windows of several queries share slices."""

from __future__ import annotations

from math import gcd
from pathlib import Path

OUT = Path(__file__).parents[2] / "docs" / "pictures" / "slices.svg"
SECONDS = 24  # that are drawn
QUERIES = (("RANGE 12 s SLIDE 6 s", 12, 6), ("RANGE 8 s SLIDE 4 s", 8, 4), ("TUMBLE 6 s", 6, 6))
COLOURS = ("#4269d0", "#3ca951", "#ff725c")
LEFT, SECOND, ROW = 190, 24, 15


def box(x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" opacity="{opacity:g}" rx="2"/>'
    )


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def drawn() -> str:
    """Windows above, each as long as the slices that it is made of; below them the slices, and the rows in them."""
    parts: list[str] = []
    y = 24.0
    for (name, length, slide), colour in zip(QUERIES, COLOURS, strict=True):
        parts.append(text(LEFT - 12, y + ROW - 4, name, "end"))
        lanes = -(-length // slide)
        for number, start in enumerate(range(0, SECONDS - length + 1, slide)):
            top = y + (number % lanes) * ROW
            parts.append(box(LEFT + start * SECOND + 1, top, length * SECOND - 2, ROW - 4, colour, 0.75))
        y += lanes * ROW + 14
    width = gcd(*(part for _, length, slide in QUERIES for part in (length, slide)))
    parts.append(text(LEFT - 12, y + 18, f"slices of {width} s, one for all", "end"))
    for start in range(0, SECONDS, width):
        parts.append(box(LEFT + start * SECOND + 1, y, width * SECOND - 2, 26, "#888888", 0.55))
        parts.append(text(LEFT + (start + width / 2) * SECOND, y + 17, "k → n, Σ", "middle"))
    y += 40
    parts.append(text(LEFT - 12, y + 10, "rows, not stored", "end"))
    parts += [  # spread without chance, so that the picture is the same each time
        f'<circle cx="{LEFT + (at * 7.3 % SECONDS) * SECOND:.1f}" cy="{y + at * 5 % 13:g}" r="1.6"/>'
        for at in range(SECONDS * 5)
    ]
    y += 34
    parts += [text(LEFT + second * SECOND, y, f"{second} s", "middle") for second in range(0, SECONDS + 1, 6)]
    size = f'width="{LEFT + SECONDS * SECOND + 20}" height="{y + 12:g}"'
    style = "<style>text{font:12px sans-serif;fill:currentColor}svg{color:#333;background:#fff}</style>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    OUT.write_text(drawn())
