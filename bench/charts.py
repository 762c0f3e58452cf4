"""The charts of the benchmarks, as SVG drawn by matplotlib: bars, lines in one or more panels, and boxes.

The same values give the same bytes: identifiers come from a fixed salt, and no date is written. The background is
white and not transparent, so that the text is readable on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

Line = Sequence[tuple[float, float]]

OURS = "#1b6ca8"
OTHERS = "#8c959f"
COLOURS = (OURS, "#c0392b", "#2e8b57", "#8e44ad", "#b8860b", "#555555")
MARKERS = "os^Dvx"
WIDTH = 7.0  # inches
FEW = 12  # points that are drawn large, and labelled each on the x axis
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#57606a",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # matplotlib brings it, so the layout is the same on every machine
    "font.size": 9.0,
    "grid.color": "#d0d7de",
    "legend.frameon": False,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "watersmeet",
}


@dataclass(frozen=True)
class Panel:
    """One pair of axes with a line for each name. `across` and `up` name the axes with their units."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Line]
    grouped: bool = False  # bars side by side at each x instead of lines
    marks: Mapping[float, str] = field(default_factory=dict)  # vertical lines: what happens there


def bars(title: str, across: str, values: Mapping[str, float], highlight: str = "") -> str:
    """A horizontal bar for each name, with its value; names that begin with `highlight` stand out."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.9 + 0.26 * len(values)), layout="constrained")
        axes = figure.subplots()
        colours = [OURS if name.startswith(highlight) else OTHERS for name in values]
        drawn = axes.barh(list(values), list(values.values()), color=colours, height=0.7)
        axes.bar_label(drawn, labels=[_number(value) for value in values.values()], padding=4)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.14)  # space for the values
        axes.set_title(title)
        _round_numbers(axes.xaxis, across, values.values())
        return _svg(figure)


def panels(title: str, drawn: Sequence[Panel]) -> str:
    """Panels one above the other."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.3 + 2.7 * len(drawn)), layout="constrained")
        figure.suptitle(title, fontsize="large")
        for axes, panel in zip(figure.subplots(len(drawn), squeeze=False)[:, 0], drawn, strict=True):
            (_draw_groups if panel.grouped else _draw_lines)(axes, panel)
            heights = [y for line in panel.lines.values() for _, y in line]
            axes.set_ylim(0, 1.12 * max(heights, default=1.0) or 1.0)
            axes.set_title(panel.title)
            _round_numbers(axes.yaxis, panel.up, heights)
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return _svg(figure)


def _draw_lines(axes: Axes, panel: Panel) -> None:
    for at, (name, line) in enumerate(panel.lines.items()):
        colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        size = 5 if len(line) <= FEW else 3
        axes.plot(*zip(*line, strict=True), label=name, color=colour, marker=marker, markersize=size)
    for x, what in panel.marks.items():
        axes.axvline(x, label=what, color="#57606a", linestyle="--", linewidth=1)
    values = sorted({x for line in panel.lines.values() for x, _ in line})
    _round_numbers(axes.xaxis, panel.across, values)
    if len(values) <= FEW:
        axes.set_xticks(values)


def _draw_groups(axes: Axes, panel: Panel) -> None:
    values = sorted({x for line in panel.lines.values() for x, _ in line})
    width = 0.8 / len(panel.lines)
    for at, (name, line) in enumerate(panel.lines.items()):
        left = [values.index(x) + (at + 0.5) * width - 0.4 for x, _ in line]
        drawn = axes.bar(left, [y for _, y in line], width=0.9 * width, label=name, color=COLOURS[at % len(COLOURS)])
        axes.bar_label(
            drawn, labels=[_number(y) for _, y in line], padding=2, fontsize=7 if len(panel.lines) <= 3 else 6
        )
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_xlabel(panel.across)


def boxes(title: str, across: str, quantiles: Mapping[str, Sequence[float]]) -> str:
    """Five quantiles for each name: whiskers at the outer two, a box between the inner two, a line at the median."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.9 + 0.4 * len(quantiles)), layout="constrained")
        axes = figure.subplots()
        drawn = [
            {"label": name, "whislo": low, "q1": first, "med": middle, "q3": third, "whishi": high}
            for name, (low, first, middle, third, high) in quantiles.items()
        ]
        axes.bxp(
            drawn,
            orientation="horizontal",
            showfliers=False,
            patch_artist=True,
            widths=0.5,
            boxprops={"facecolor": "#ddeaf5", "edgecolor": OURS},
            medianprops={"color": COLOURS[1], "linewidth": 2},
            whiskerprops={"color": OURS},
            capprops={"color": OURS},
        )
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_title(title)
        axes.set_xlim(left=0)
        _round_numbers(axes.xaxis, across, (value for found in quantiles.values() for value in found))
        return _svg(figure)


def _round_numbers(axis: Axis, label: str, values: Iterable[float]) -> None:
    """Ticks at round numbers, large ones in millions; only whole numbers if all values are."""
    values = list(values)
    unit = 1e6 if max(values, default=0.0) >= 2e6 else 1.0
    whole = all((value / unit).is_integer() for value in values)
    axis.set_major_locator(MaxNLocator("auto", integer=whole, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:,.12g}"))
    axis.set_label_text(label if unit == 1.0 else f"million {label}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _svg(figure: Figure) -> str:
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
