"""The windows of a windowed query."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from watersmeet.errors import ModelError


@dataclass(frozen=True)
class SlidingWindow:
    """The windows [k·slide, k·slide + range) of event time, in microseconds. A window's name is its start."""

    range: int
    slide: int

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.range:
            raise ModelError("a window needs a slide above 0 and not above its range")

    @property
    def slice(self) -> int:
        """The width of the widest slices of which every window is made; one begins at 0."""
        return gcd(self.range, self.slide)

    @property
    def windows_of_a_row(self) -> int:
        """The most windows that contain one time."""
        return -(-self.range // self.slide)

    def end(self, start: int) -> int:
        return start + self.range

    def first(self, time: int) -> int:
        """The first window that contains a time."""
        return ((time - self.range) // self.slide + 1) * self.slide

    def last(self, time: int) -> int:
        """The last window that contains a time."""
        return time // self.slide * self.slide

    def beginning(self, at: int) -> int:
        """The first window that begins at or after a time."""
        return -(-at // self.slide) * self.slide
