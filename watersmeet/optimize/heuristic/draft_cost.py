"""What a plan pays while it is being searched for: moves in use, open stores, layouts, and a way back.

Invariants:
  · `cost` and `storage` are those of `solution.price` for the paths and layouts held;
  · `level[move]` is what the users of a move pay for it, the most that one of them needs: one more path pays only
    what it needs beyond that;
  · `extra[move]` is what the first path to use a move would pay besides: nothing if another path pays already.
A materialized store that nothing probes is *closed*: its moves are not on offer.
A store without a layout while has_layouts is *undecided*: probes are priced as if they were not broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from watersmeet.optimize.heuristic.numbered_problem import Goal, Space
from watersmeet.optimize.problem import Problem

CLOSED = math.inf
TAKEN, DROPPED, PUT, REMOVED, LAYOUTS, PINNED, UNPINNED = range(7)
NOWHERE = (-1, -1)

Mark = tuple[int, float, float, float]  # entries of the journal, cost, storage, cost without phases


class Ledger:
    """The cost of a draft, kept up to date while moves and stores come and go."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.problem: Problem = space.problem
        self.paths: dict[Goal, list[int]] = {}
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.users: dict[int, int] = {}  # materialized store -> its moves in use, and pins
        self.in_use: dict[int, dict[int, None]] = {}  # store -> its moves in use
        self.use: list[dict[Goal, float]] = []  # of each move: the wants whose paths take it, and what they need of it,
        self.level: list[float] = []  # the most of that,
        self.extra: list[float] = []  # and what the first one would pay besides
        self.indexed: dict[int, int] = {}  # index -> moves in use that need it
        self.streams = sorted({space.store[relation] for relation in range(len(space.relations))})
        self.paid = 0.0  # all but the phases
        self.storage = sum(space.rows(store) for store in self.streams)
        self.budget = self.problem.storage_budget
        self.opened: list[int] = []  # stores that have become open, and what they need is not yet there
        self.journal: list[tuple[int, int, Goal, Sequence[int]]] = []  # (what was done, to what, where, before that)
        self._waiting: dict[Goal, tuple[int, ...]] = {}  # want -> stores on its path that are made before it
        self._phases = 1  # of all paths, 0 if that is to be found again
        self._phase_cost = self.problem.phases(2) if self.problem.has_phases else 0.0

    @property
    def cost(self) -> float:
        if not self._phase_cost or (self._phases == 1 and not self._waiting):
            return self.paid
        if not self._phases:
            self._phases = self._count_phases()
        return self.paid + (self._phases - 1) * self._phase_cost

    @property
    def fits(self) -> bool:
        return self.budget is None or self.storage <= self.budget * (1 + 1e-12)

    def set_path(self, want: Goal, path: list[int] | None) -> None:
        if path is None:
            del self.paths[want]
            if self._waiting.pop(want, None):
                self._phases = 0
            return
        self.paths[want] = path
        if not self._phase_cost:
            return
        space = self.space
        stores = (space.probed[move] for move in path)
        waits_for = tuple(s for s in stores if len(space.members[s]) > 1 and space.sees(want[0], s))
        if waits_for != self._waiting.get(want, ()):
            self._phases = 0
            if waits_for:
                self._waiting[want] = waits_for
            else:
                del self._waiting[want]

    def _count_phases(self) -> int:
        levels: dict[int, int] = {}

        def phase(want: Goal) -> int:
            return 1 + max(map(level, self._waiting.get(want, ())), default=0)

        def level(store: int) -> int:
            if store not in levels:
                levels[store] = max(phase((start, store)) for start in self.space.members[store])
            return levels[store]

        return max(map(phase, self._waiting), default=1)

    def meet_new_moves(self) -> None:
        """Prepare the costs of moves that routes have found since: a route is found when it is first needed."""
        for move in range(len(self.use), len(self.space.step)):
            self.use.append({})
            self.level.append(0.0)
            self.extra.append(self._extra_of(move))

    def _extra_of(self, move: int) -> float:
        space = self.space
        store, index = space.probed[move], space.index[move]
        if len(space.members[store]) > 1 and not self.users.get(store):
            return CLOSED
        more = space.indexes[index][1] if index >= 0 and not self.indexed.get(index) else 0.0
        return space.step[move].fixed + self._broadcast(move) + more

    def _broadcast(self, move: int) -> float:
        """What a move costs more under the layouts of its store."""
        layouts, ends = self.layouts.get(self.space.probed[move]), self.space.ends[move]
        if not layouts or not ends or any(end in layouts for end in ends):
            return 0.0
        return self.space.broadcast[move]

    def _refresh(self, store: int, moves: Iterable[int]) -> None:
        """The `extra` of moves on one store again: it may be open now, or closed, or have other layouts or indexes."""
        use, extra, space = self.use, self.extra, self.space
        met = len(use)
        if len(space.members[store]) > 1 and not self.users.get(store):
            for move in moves:
                if move < met and not use[move]:
                    extra[move] = CLOSED
            return
        layouts, indexed, indexes = self.layouts.get(store), self.indexed, space.indexes
        for move in moves:
            if move < met and not use[move]:
                index = space.index[move]
                more = indexes[index][1] if index >= 0 and not indexed.get(index) else 0.0
                extra[move] = space.step[move].fixed + (self._broadcast(move) if layouts else 0.0) + more

    def take(self, move: int, want: Goal) -> None:
        self.journal.append((TAKEN, move, want, ()))
        users, need = self.use[move], self.space.need(want, move)
        users[want] = need
        if need > self.level[move]:
            self.paid += need - self.level[move]
            self.level[move] = need
        if len(users) > 1:
            return
        self.paid += self.space.step[move].fixed + self._broadcast(move)
        self.extra[move] = 0.0
        self._need_index(self.space.index[move], 1)
        store = self.space.probed[move]
        self.in_use.setdefault(store, {})[move] = None
        if len(self.space.members[store]) > 1:
            self.hold(store)

    def drop(self, move: int, want: Goal) -> int:
        """Gives the store that nothing probes any more, or -1."""
        self.journal.append((DROPPED, move, want, ()))
        users = self.use[move]
        del users[want]
        most = max(users.values(), default=0.0)
        self.paid -= self.level[move] - most
        self.level[move] = most
        if users:
            return -1
        self.paid -= self.space.step[move].fixed + self._broadcast(move)
        self._need_index(self.space.index[move], -1)
        store = self.space.probed[move]
        del self.in_use[store][move]
        if len(self.space.members[store]) > 1 and self.release(store):
            return store
        self.extra[move] = self._extra_of(move)
        return -1

    def _need_index(self, index: int, more: int) -> None:
        if index < 0:
            return
        before = self.indexed.get(index, 0)
        self.indexed[index] = before + more
        cost = self.space.indexes[index][1]
        if cost and 0 in (before, before + more):
            self.paid += more * cost
            self._refresh(self.space.indexes[index][0], self.space.moves_by[index])

    def hold(self, store: int) -> None:
        self.users[store] = self.users.get(store, 0) + 1
        if self.users[store] == 1:
            self._ship(store, 1)
            self.opened.append(store)

    def release(self, store: int) -> bool:
        self.users[store] -= 1
        if not self.users[store]:
            self._ship(store, -1)
        return not self.users[store]

    def _ship(self, store: int, sign: int) -> None:
        copies = sign * max(1, len(self.layouts.get(store, ())))
        self.paid += copies * self.space.keeping(store)
        self.storage += copies * self.space.rows(store)
        self._refresh(store, self.space.moves_on.get(store, ()))

    def set_layouts(self, store: int, layouts: tuple[int, ...]) -> None:
        old = self.layouts.get(store, ())
        if old == layouts:
            return
        self.journal.append((LAYOUTS, store, NOWHERE, old))
        added = max(1, len(layouts)) - max(1, len(old))
        if added and (len(self.space.members[store]) == 1 or self.users.get(store)):
            self.paid += added * self.space.keeping(store)
            self.storage += added * self.space.rows(store)
        used = self.in_use.get(store, ())
        before = sum(map(self._broadcast, used))
        self.layouts[store] = layouts
        self.paid += sum(map(self._broadcast, used)) - before
        self._refresh(store, self.space.moves_on.get(store, ()))

    def mark(self) -> Mark:
        """The state to which `back` can return."""
        return len(self.journal), self.cost, self.storage, self.paid

    def back(self, mark: Mark) -> None:
        """Undoes everything since the mark."""
        undone = self.journal[mark[0] :]
        for kind, number, want, old in reversed(undone):
            if kind == TAKEN:
                self.drop(number, want)
            elif kind == DROPPED:
                self.take(number, want)
            elif kind == PUT:
                self.set_path(want, None)
            elif kind == REMOVED:
                self.set_path(want, list(old))
            elif kind == LAYOUTS:
                self.set_layouts(number, tuple(old))
            elif kind == PINNED:
                self.release(number)
            else:
                self.hold(number)
        del self.journal[mark[0] :]
        self.opened.clear()
        _, _, self.storage, self.paid = mark

    def commit(self) -> None:
        """Accept all changes: `back` cannot undo them."""
        self.journal.clear()
