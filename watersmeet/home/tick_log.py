"""The log of ticks in the home, one line per tick, for monitoring and benchmarks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from watersmeet.home import layout
from watersmeet.home.files import advice_in, append_advice

_LONGEST_LOG = 16 << 20
_RECENT = 1000


@dataclass(frozen=True)
class TickTimes:
    """Where the time of a tick went, in seconds. What was gathered while the tick before was probed costs no time.

    `held` is the memory that tasks keep for the windows of the next ticks, in bytes; `released` are results that had
    waited since earlier ticks."""

    tick: int
    rows: int
    results: int
    gather: float
    probe: float
    commit: float
    finished_at: float
    held: int = 0
    released: int = 0

    @property
    def total(self) -> float:
        return self.gather + self.probe + self.commit


def log_tick(home: Path, times: TickTimes) -> None:
    append_advice(home / layout.TICKS, [asdict(times)], _LONGEST_LOG)


def recent_ticks(home: Path) -> list[TickTimes]:
    found = []
    for record in advice_in(home / layout.TICKS, _RECENT):
        try:
            found.append(TickTimes(**record))
        except TypeError:  # of another version
            continue
    return found
