"""Units of costs, and how costs, lengths of event time and lists of names are written."""

from __future__ import annotations

from collections.abc import Sequence

SECONDS, TUPLES = "seconds", "tuples"  # units of costs
_UNITS = (
    *((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")),
    *((1_000_000, "s"), (1_000, "ms"), (1, "µs")),
)


def names_text(names: Sequence[str], limit: int = 8) -> str:
    """At most so many names, and how many more there are."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def seconds_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def length_text(micros: int) -> str:
    """A length of time in the largest unit of which it is a multiple."""
    size, unit = next((size, unit) for size, unit in _UNITS if micros % size == 0)
    return f"{micros // size} {unit}"
