"""A clock that stands still until a test moves it, in place of the `time` of a module of the product."""

from __future__ import annotations

from types import ModuleType

import pytest


class OwnClock:
    """What a module of the product asks the module `time` for. Its date is long ago, so that no file looks old."""

    def __init__(self) -> None:
        self.now = 1000.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)


def clock_of(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> OwnClock:
    """A clock for these modules."""
    clock = OwnClock()
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return clock
