"""Charts say what they were given: lengths, labels, units; the same values give the same bytes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from bench.charts import COLOURS, OTHERS, OURS, Panel, bars, boxes, panels


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def extents(svg: str, colour: str) -> list[tuple[float, float]]:
    """Width and height of each shape that is filled with a colour."""
    found = []
    for path in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        if f"fill: {colour}" in path.get("style", ""):
            numbers = [float(number) for number in re.findall(r"-?[0-9.]+", path.get("d", ""))]
            across, up = numbers[::2], numbers[1::2]
            found.append((max(across) - min(across), max(up) - min(up)))
    return found


def test_bars_are_as_long_as_their_values_and_the_highlighted_one_stands_out() -> None:
    svg = bars("a & b", "rows/s", {"Watersmeet": 4000.0, "other": 1000.0}, highlight="Watersmeet")
    ((long, _),), ((short, _),) = extents(svg, OURS), extents(svg, OTHERS)
    assert long == pytest.approx(4 * short, rel=0.01)
    assert {"a & b", "rows/s", "Watersmeet", "other", "4,000", "1,000"} <= set(texts(svg))


def test_axes_have_round_numbers_and_millions_are_said_in_the_unit() -> None:
    svg = panels("all", [Panel("one", "tick", "rows", {"x": [(1.0, 0.0), (2.0, 7_300_000.0)]})])
    assert {"one", "tick", "million rows", "1", "2", "4", "6", "x"} <= set(texts(svg))
    assert not any("e+" in text for text in texts(svg))


def test_bars_of_a_group_stand_side_by_side() -> None:
    drawn = Panel("", "partitions", "rows", {"a": [(1.0, 10.0), (4.0, 20.0)], "b": [(4.0, 40.0)]}, grouped=True)
    svg = panels("", [drawn])
    # The swatch of the legend comes last.
    heights = {colour: [height for _, height in extents(svg, colour)][:-1] for colour in COLOURS[:2]}
    (low, middle), (high,) = heights.values()
    assert (middle / low, high / low) == pytest.approx((2.0, 4.0), rel=0.01)
    assert {"1", "4", "partitions"} <= set(texts(svg))


def test_boxes_lie_where_their_quantiles_are() -> None:
    svg = boxes("t", "s", {"a": (0.0, 1.0, 2.0, 3.0, 4.0), "b": (0.0, 0.5, 1.0, 1.5, 2.0)})
    (first, _), (second, _) = extents(svg, "#ddeaf5")
    assert first == pytest.approx(2 * second, rel=0.01)


def test_the_same_values_give_the_same_bytes() -> None:
    def draw() -> str:
        return panels("t", [Panel("p", "x", "y", {"l": [(0.0, 1.0), (3.0, 2.0)]}, marks={1.0: "change"})])

    assert draw() == draw()
    assert "<dc:date>" not in draw()
