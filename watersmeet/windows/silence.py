"""Which streams have been silent for longer than their declaration allows, by the clock.

The count begins anew with each start of an engine: while none runs, nobody knows whether a stream was silent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from watersmeet.home.manifest import Manifest
from watersmeet.model import Stream
from watersmeet.runtime.tick.active_plan import ActivePlan
from watersmeet.windows.life import WindowLife


class Silence:
    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._heard: dict[str, float] = {}  # by stream, when it had rows

    def heard(self, streams: Iterable[str]) -> None:
        self._heard.update(dict.fromkeys(streams, time.monotonic()))

    def silent(self, streams: Iterable[Stream]) -> frozenset[str]:
        now = time.monotonic()
        limits = {stream.name: stream.idle / 1e6 for stream in streams if stream.idle is not None}
        return frozenset(name for name, limit in limits.items() if now - self._heard.get(name, self._begun) >= limit)

    def moves(self, plan: ActivePlan, newest: Manifest) -> bool:
        """Whether a tick without rows would raise a watermark now."""
        silent = self.silent(plan.streams) if plan.windowed else frozenset()
        if not silent:
            return False
        windows = WindowLife(plan.windowed, plan.streams, plan.rules, newest, silent)
        return windows.raised(newest.newest, ()) != newest.silent
