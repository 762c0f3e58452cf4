"""What a plan pays while it is being searched for: moves in use, open stores, layouts, and a way back.

Invariants:
  · `cost` and `storage` are those of `problem.price` for the paths and layouts held;
  · `marginal[move]` is what one more path would pay for the move: nothing if another path pays already.
A materialized store that nothing probes is *closed*: its moves are not on offer.
A store without a layout while has_layouts is *undecided*: probes are priced as if they were not broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from watersmeet.optimize.heuristic.numbered_problem import Goal, Space
from watersmeet.optimize.problem import Problem

CLOSED = math.inf
TAKEN, DROPPED, PUT, REMOVED, LAYOUTS, PINNED, UNPINNED = range(7)
NOWHERE = (-1, -1)

Mark = tuple[int, float, float]  # entries of the journal, cost, storage


class Ledger:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.problem: Problem = space.problem
        self.copies = float(self.problem.partitions) if self.problem.has_layouts else 1.0
        self.paths: dict[Goal, list[int]] = {}
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.users: dict[int, int] = {}  # materialized store -> its moves in use, and pins
        self.in_use: dict[int, dict[int, None]] = {}  # store -> its moves in use
        self.use: list[int] = []  # of each move: how many paths take it,
        self.price: list[float] = []  # what it costs under the layouts,
        self.marginal: list[float] = []  # and what one more path would pay
        self.streams = sorted({space.store[relation] for relation in range(len(space.relations))})
        self.cost = 0.0
        self.storage = sum(space.size[store] for store in self.streams)
        self.budget = self.problem.storage_budget
        self.opened: list[int] = []  # stores that have become open, and what they need is not yet there
        self.journal: list[tuple[int, int, Goal, Sequence[int]]] = []  # (what was done, to what, where, before that)

    @property
    def fits(self) -> bool:
        return self.budget is None or self.storage <= self.budget * (1 + 1e-12)

    def meet_new_moves(self) -> None:
        """Routes are found when they are first asked for, and with them moves."""
        for move in range(len(self.use), len(self.space.base)):
            self.use.append(0)
            self.price.append(self._price_of(move))
            self.marginal.append(self.price[move] + self._entry(self.space.probed[move]))

    def _price_of(self, move: int) -> float:
        layouts = self.layouts.get(self.space.probed[move])
        ends = self.space.ends[move]
        if not layouts or not ends or any(end in layouts for end in ends):
            return self.space.base[move]
        return self.space.base[move] * self.copies

    def _entry(self, store: int) -> float:
        if len(self.space.members[store]) == 1 or self.users.get(store):
            return 0.0
        return CLOSED

    def _refresh(self, store: int) -> None:
        entry = self._entry(store)
        for move in self.space.moves_on.get(store, ()):
            if move < len(self.use) and not self.use[move]:
                self.marginal[move] = self.price[move] + entry

    def take(self, move: int) -> None:
        self.journal.append((TAKEN, move, NOWHERE, ()))
        self.use[move] += 1
        if self.use[move] > 1:
            return
        self.cost += self.price[move]
        self.marginal[move] = 0.0
        store = self.space.probed[move]
        self.in_use.setdefault(store, {})[move] = None
        if len(self.space.members[store]) > 1:
            self.hold(store)

    def drop(self, move: int) -> int:
        """Gives the store that nothing probes any more, or -1."""
        self.journal.append((DROPPED, move, NOWHERE, ()))
        self.use[move] -= 1
        if self.use[move]:
            return -1
        self.cost -= self.price[move]
        store = self.space.probed[move]
        del self.in_use[store][move]
        if len(self.space.members[store]) > 1 and self.release(store):
            return store
        self.marginal[move] = self.price[move]
        return -1

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
        size = self.space.size[store] * max(1, len(self.layouts.get(store, ())))
        self.cost += sign * size * self.problem.keeping
        self.storage += sign * size
        self._refresh(store)

    def set_layouts(self, store: int, layouts: tuple[int, ...]) -> None:
        old = self.layouts.get(store, ())
        if old == layouts:
            return
        self.journal.append((LAYOUTS, store, NOWHERE, old))
        added = (max(1, len(layouts)) - max(1, len(old))) * self.space.size[store]
        if len(self.space.members[store]) == 1 or self.users.get(store):
            self.cost += added * self.problem.keeping
            self.storage += added
        self.layouts[store] = layouts
        entry = self._entry(store)
        prices, marginal, use, known = self.price, self.marginal, self.use, len(self.use)
        base, ends = self.space.base, self.space.ends
        for move in self.space.moves_on.get(store, ()):
            if move >= known:
                break
            new = base[move]
            if layouts and ends[move] and not any(end in layouts for end in ends[move]):
                new *= self.copies
            if use[move]:
                self.cost += new - prices[move]
            else:
                marginal[move] = new + entry
            prices[move] = new

    def mark(self) -> Mark:
        """Where `back` leads to."""
        return len(self.journal), self.cost, self.storage

    def back(self, mark: Mark) -> None:
        """Undoes everything since the mark."""
        undone = self.journal[mark[0] :]
        for kind, number, want, old in reversed(undone):
            if kind == TAKEN:
                self.drop(number)
            elif kind == DROPPED:
                self.take(number)
            elif kind == PUT:
                del self.paths[want]
            elif kind == REMOVED:
                self.paths[want] = list(old)
            elif kind == LAYOUTS:
                self.set_layouts(number, tuple(old))
            elif kind == PINNED:
                self.release(number)
            else:
                self.hold(number)
        del self.journal[mark[0] :]
        self.opened.clear()
        _, self.cost, self.storage = mark

    def commit(self) -> None:
        """There is no way back any more."""
        self.journal.clear()
