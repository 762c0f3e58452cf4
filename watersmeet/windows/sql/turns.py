"""Whose windows Spark computes in a tick that may not compute one of each query: queries take turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence


class Turns:
    """Queries in turn: first those whose last turn is longest ago, so that each follows all others at the latest.

    This is known while an engine runs. After a start all are equal, and the number of the tick says who begins: an
    engine that is restarted with every tick gives each query its turn too."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # query -> the tick of its last turn

    def take(self, waiting: Sequence[str], most: int, tick: int, active: Collection[str]) -> set[str]:
        """At most `most` of the queries that wait; `active` are all that may wait another time."""
        first = tick * most % max(1, len(waiting))
        from_there = [*waiting[first:], *waiting[:first]]
        chosen = set(sorted(from_there, key=lambda query: self._last.get(query, 0))[:most])
        self._last = {query: at for query, at in self._last.items() if query in active} | dict.fromkeys(chosen, tick)
        return chosen
