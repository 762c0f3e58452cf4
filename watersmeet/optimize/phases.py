"""Phases of a tick: rows that this very tick adds to a materialized store must exist before others probe them.

Relations have a fixed order. A row finds rows of its own tick in earlier relations only, so that of the members of a
result that arrive in one tick exactly one finds the others. A path that probes a store with such rows runs in a later
phase than the paths that make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from watersmeet.optimize.joingraph import Subquery, stream_of

Want = tuple[str, Subquery]
Path = tuple[Subquery, ...]


def position(relation: str) -> tuple[str, int]:
    """The place of a relation in the fixed order."""
    return stream_of(relation), int(relation.partition("@")[2] or 1)


def seen(start: str, store: Subquery) -> tuple[str, ...]:
    """The relations whose rows of the current tick the rows of a start see in a store.

    A row of a materialized store is made by the last of its members: that one must precede, too."""
    own = position(start)
    return tuple(sorted(relation for relation in store.relations if position(relation) < own))


class PathPhases:
    """When the paths of a plan may run, and when they do."""

    def __init__(self, paths: Mapping[Want, Path]) -> None:
        self._paths = paths
        self._levels: dict[Subquery, int] = {}

    def phase(self, start: str, path: Path) -> int:
        """The earliest phase in which a path may run."""
        waits_for = [store for store in path if not store.is_stream and seen(start, store)]
        return 1 + max(map(self.level, waits_for), default=0)

    def level(self, store: Subquery) -> int:
        """The phase in which the current tick's rows of a materialized store are complete."""
        if store not in self._levels:
            paths = ((relation, self._paths[relation, store]) for relation in store.relations)
            self._levels[store] = max(self.phase(relation, path) for relation, path in paths)
        return self._levels[store]

    @property
    def count(self) -> int:
        return max((self.phase(want[0], path) for want, path in self._paths.items()), default=1)

    @cached_property
    def chosen(self) -> dict[Want, int]:
        """The phase of each path. Paths of one start that share steps would repeat them in different phases, so that
        as many as possible run in one."""
        count = self.count
        earliest = {want: self.phase(want[0], path) for want, path in self._paths.items()}
        latest: dict[Subquery, int] = {}  # by materialized store, the phase in which it has to be complete
        for want, path in self._paths.items():
            for store in path:
                if not store.is_stream:
                    needed = earliest[want] - 1 if seen(want[0], store) else count
                    latest[store] = min(needed, latest.get(store, count))
        found: dict[Want, int] = {}
        for want in sorted(earliest, key=lambda want: (latest.get(want[1], count), want[0], want[1].sort_key)):
            if want not in found:
                end = latest.get(want[1], count)
                together = [
                    other for other in earliest if other[0] == want[0] and other not in found and earliest[other] <= end
                ]
                found |= dict.fromkeys(together, max(earliest[other] for other in together))
        return found
