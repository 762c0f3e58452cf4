"""One line a tick in the home, for whoever watches or measures."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

TICK_LOG = "ticks.jsonl"
_LONGEST_LOG = 16 << 20


@dataclass(frozen=True)
class TickTimes:
    """Where the time of a tick went, in seconds. What was gathered while the tick before was probed costs no time."""

    tick: int
    rows: int
    results: int
    gather: float
    probe: float
    commit: float
    finished_at: float

    @property
    def total(self) -> float:
        return self.gather + self.probe + self.commit


def log_tick(home: Path, times: TickTimes) -> None:
    path = home / TICK_LOG
    with contextlib.suppress(OSError):  # the tick is committed; a full disk stops the next one
        if path.exists() and path.stat().st_size > _LONGEST_LOG:
            path.replace(path.with_suffix(".old"))
        with path.open("a") as file:
            file.write(json.dumps(asdict(times)) + "\n")
