"""Boxes of text in a drawing (SVG). A box is as large as its text: nothing is cut.

Which font a viewer uses is not known, so widths are those of the widest common ones (DejaVu Sans, Verdana)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from watersmeet.terminal import visible

PADDING, WIDEST = 10.0, 320.0  # WIDEST: of the text in a box; what is longer is wrapped
Point = tuple[float, float]
_NARROW, _WIDE = frozenset(" !'()*,-./:;I[\\]`fijlrt{|}·"), frozenset("%@MWmw")
_BOLD, _ARROW = 1.15, "⇒ "


@dataclass(frozen=True)
class Style:
    """A class of the style sheet, with what is needed to measure a text in it."""

    name: str
    size: float
    bold: bool = False

    @property
    def line(self) -> float:
        return round(self.size * 1.35)


HEAD, TITLE = Style("head", 15, bold=True), Style("title", 13, bold=True)
NAME, SMALL, END = Style("name", 12, bold=True), Style("small", 10), Style("end", 11, bold=True)
STYLES = "".join(
    f".{style.name} {{ font-size: {style.size:g}px; font-weight: {'bold' if style.bold else 'normal'} }} "
    for style in (HEAD, TITLE, NAME, SMALL, END)
)


def text_width(text: str, style: Style) -> float:
    return sum(map(_em, text)) * style.size * (_BOLD if style.bold else 1.0)


def _em(letter: str) -> float:
    """The width of a letter, at least what it is in the widest of the common fonts, in ems."""
    if letter in _NARROW:
        return 0.46
    if letter in _WIDE or not letter.isascii():
        return 0.0 if unicodedata.combining(letter) else 1.02
    return 0.66 if letter.islower() or letter.isdigit() or letter == "_" else 0.86


def wrapped(text: str, style: Style, limit: float = WIDEST) -> Iterator[str]:
    """The text in lines that are no wider than a limit: broken at spaces, and within a word that is too long."""
    line = ""
    for word in visible(text).split():
        if line and text_width(f"{line} {word}", style) > limit:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while text_width(line, style) > limit and len(line) > 1:
            end = _break(line, style, limit)
            yield line[:end]
            line = line[end:]
    if line:
        yield line


def _break(line: str, style: Style, limit: float) -> int:
    """Where a line is broken that has no space for it: behind the last sign, if that is in the second half."""
    fits = next((end for end in range(len(line) - 1, 1, -1) if text_width(line[:end], style) <= limit), 1)
    sign = 1 + max(line.rfind(each, 0, fits) for each in "_.,-/)")
    return sign if sign > fits / 2 else fits


@dataclass(frozen=True)
class Box:
    """Lines in a frame, and below it what ends there."""

    kind: str  # a class of the style sheet
    lines: tuple[tuple[str, Style], ...]
    below: tuple[str, ...] = ()
    title: str = ""  # shown where the pointer is

    @property
    def width(self) -> float:
        texts = (*self.lines, *((line, END) for line in self.below))
        return 2 * PADDING + max((text_width(line, style) for line, style in texts), default=0.0)

    @property
    def frame(self) -> float:
        """The height without what is below."""
        return PADDING + sum(style.line for _, style in self.lines)

    @property
    def height(self) -> float:
        return self.frame + (END.line * len(self.below) + 4 if self.below else 0)

    def drawn(self, x: float, y: float, width: float) -> str:
        at, inside = y + PADDING / 2, []
        for line, style in self.lines:
            at += style.line
            inside.append(text_at(x + PADDING, at - style.size * 0.3, line, style))
        at = y + self.frame + 2
        for line in self.below:
            at += END.line
            inside.append(text_at(x + PADDING, at - END.size * 0.3, line, END))
        title = f"<title>{escape(visible(self.title))}</title>" if self.title else ""
        frame = f'<rect class="{self.kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{self.frame:g}" rx="6"/>'
        return f"<g>{title}{frame}{''.join(inside)}</g>"


def box(kind: str, name: str, details: Iterable[str] = (), ends: Iterable[str] = (), title: str = "") -> Box:
    """A box with a name, details below it, and the names of queries that are answered there."""
    lines = [(line, NAME) for line in wrapped(name, NAME)]
    lines += [(line, SMALL) for detail in details for line in wrapped(detail, SMALL)]
    below = tuple(wrapped(", ".join(ends), END, WIDEST - text_width(_ARROW, END)))
    return Box(kind, tuple(lines), tuple(f"{'' if at else _ARROW}{line}" for at, line in enumerate(below)), title)


def text_at(x: float, y: float, text: str, style: Style) -> str:
    return f'<text class="{style.name}" x="{x:g}" y="{y:.1f}">{escape(text)}</text>'


def curve(begin: Point, end: Point, thickness: float = 1.5, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="6 4"' if dashed else ""
    (x0, y0), (x1, y1) = begin, end
    path = f"M {x0:g} {y0:g} C {x0 + 30:g} {y0:g}, {x1 - 30:g} {y1:g}, {x1:g} {y1:g}"
    return f'<path class="edge" stroke-width="{thickness:.1f}"{dashes} d="{path}"/>'
