"""A plan while it is being searched for: paths and layouts with their cost kept up to date, and a way back.

Invariants, once `settle` has run:
  · every want of the queries, and for each materialized store in use every want that produces it, has a path;
  · `cost` and `storage` are those of `problem.price`;
  · `marginal[move]` is what a path would pay for the move: nothing if another path pays already.
A materialized store that nothing probes is *closed*: its moves are not on offer. `pin` opens it nevertheless.
A store without a layout while has_layouts is *undecided*: probes are priced as if they were not broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from watersmeet.optimize.problem import Path, Problem, Solution, Want, price
from watersmeet.optimize.space import Goal, Space

CLOSED = math.inf
_TAKE, _DROP, _PUT, _REMOVE, _LAYOUT, _PIN, _UNPIN = range(7)
NOWHERE = (-1, -1)


class Draft:
    def __init__(self, space: Space, *, stores: bool = False) -> None:
        self.space = space
        self.stores = stores and space.problem.materialize
        self.problem: Problem = space.problem
        self.copies = float(self.problem.partitions) if self.problem.has_layouts else 1.0
        self.paths: dict[Goal, list[int]] = {}
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.users: dict[int, int] = {}  # materialized store -> its moves in use, and pins
        self.in_use: dict[int, dict[int, None]] = {}  # store -> its moves in use
        self.use: list[int] = []
        self.price: list[float] = []  # of each move under the layouts
        self.marginal: list[float] = []
        self.asked = set(space.wants)
        streams = {space.store[one] for one in range(len(space.relations))}
        self.streams = sorted(streams)
        self.cost = 0.0
        self.storage = sum(space.size[store] for store in self.streams)
        self.budget = self.problem.storage_budget
        self._journal: list[tuple[int, int, Goal, Sequence[int]]] = []  # (what was done, to what, where, and before)
        self._opened: list[int] = []

    # Moves

    def _meet_new_moves(self) -> None:
        """Routes are found when they are first asked for, and with them moves."""
        for move in range(len(self.use), len(self.space.base)):
            self.use.append(0)
            self.price.append(self._price_of(move))
            self.marginal.append(self.price[move] + self._entry(self.space.probed[move]))

    def _price_of(self, move: int) -> float:
        layouts = self.layouts.get(self.space.probed[move])
        if not layouts or any(end in layouts for end in self.space.ends[move]):
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

    def _take(self, move: int) -> None:
        self._journal.append((_TAKE, move, NOWHERE, ()))
        self.use[move] += 1
        if self.use[move] > 1:
            return
        self.cost += self.price[move]
        self.marginal[move] = 0.0
        store = self.space.probed[move]
        self.in_use.setdefault(store, {})[move] = None
        if len(self.space.members[store]) > 1:
            self._hold(store)

    def _drop(self, move: int) -> int:
        """Gives the store that nothing probes any more, or -1."""
        self._journal.append((_DROP, move, NOWHERE, ()))
        self.use[move] -= 1
        if self.use[move]:
            return -1
        self.cost -= self.price[move]
        store = self.space.probed[move]
        del self.in_use[store][move]
        if len(self.space.members[store]) > 1 and self._release(store):
            return store
        self.marginal[move] = self.price[move]
        return -1

    def _hold(self, store: int) -> None:
        self.users[store] = self.users.get(store, 0) + 1
        if self.users[store] == 1:
            self._ship(store, 1)
            self._opened.append(store)

    def _release(self, store: int) -> bool:
        self.users[store] -= 1
        if not self.users[store]:
            self._ship(store, -1)
        return not self.users[store]

    def _ship(self, store: int, sign: int) -> None:
        size = self.space.size[store] * max(1, len(self.layouts.get(store, ())))
        self.cost += sign * size
        self.storage += sign * size
        self._refresh(store)

    # Paths

    def shortest(self, want: Goal) -> tuple[float, list[int]]:
        """The path that adds least to the cost, and how much that is."""
        route = self.space.route(want, self.stores)
        if len(self.use) < len(self.space.base):
            self._meet_new_moves()
        marginal = self.marginal
        best = [0.0] * (len(route) + 1)
        taken = [(0, 0)] * (len(route) + 1)
        for node, options in route:
            least = CLOSED
            for option in options:
                cost = marginal[option[0]] + best[option[1]]
                if cost < least:
                    least = cost
                    taken[node] = option
            best[node] = least
        path = []
        node = len(route)
        while node:
            move, node = taken[node]
            path.append(move)
        return best[-1], path

    def put(self, want: Goal, path: list[int]) -> None:
        self._journal.append((_PUT, 0, want, ()))
        self.paths[want] = path
        for move in path:
            self._take(move)

    def remove(self, want: Goal) -> None:
        path = self.paths.pop(want)
        self._journal.append((_REMOVE, 0, want, path))
        for move in path:
            closed = self._drop(move)
            if closed >= 0:
                self._forget(closed)

    def _forget(self, closed: int) -> None:
        self.set_layouts(closed, ())
        for start in self.space.members[closed]:
            if (start, closed) not in self.asked and (start, closed) in self.paths:
                self.remove((start, closed))

    def pin(self, store: int) -> None:
        """Opens a materialized store before anything probes it."""
        self._journal.append((_PIN, store, NOWHERE, ()))
        self._hold(store)

    def unpin(self, store: int) -> None:
        self._journal.append((_UNPIN, store, NOWHERE, ()))
        if self._release(store):
            self._forget(store)

    def settle(self) -> None:
        """Finds paths for what opened stores ask for, and layouts for them."""
        decide = []
        while self._opened:
            store = self._opened.pop()
            if not self.users.get(store):
                continue
            decide.append(store)
            for start in self.space.members[store]:
                if (start, store) not in self.paths:
                    self.put((start, store), self.shortest((start, store))[1])
        for store in decide:
            if self.users.get(store):
                self.choose_layouts(store)

    def route(self, want: Goal) -> None:
        """A path for a want that has none."""
        self.put(want, self.shortest(want)[1])
        if self._opened:
            self.settle()

    def reroute(self, wants: Iterable[Goal]) -> None:
        """Each want by the path that adds least, one after the other; never at a loss."""
        for want in wants:
            if want not in self.paths:
                continue  # it produced a store that has been closed meanwhile
            mark = self.mark()
            old = self.paths[want]
            self.remove(want)
            path = self.shortest(want)[1]
            if path == old and not self._opened:
                self.back(mark)
                continue
            self.put(want, path)
            self.settle()
            if self.cost > mark[1]:
                self.back(mark)

    # Layouts

    def set_layouts(self, store: int, layouts: tuple[int, ...]) -> None:
        old = self.layouts.get(store, ())
        if old == layouts:
            return
        self._journal.append((_LAYOUT, store, NOWHERE, old))
        added = (max(1, len(layouts)) - max(1, len(old))) * self.space.size[store]
        if len(self.space.members[store]) == 1 or self.users.get(store):
            self.cost += added
            self.storage += added
        self.layouts[store] = layouts
        entry = self._entry(store)
        prices, marginal, use, known = self.price, self.marginal, self.use, len(self.use)
        base, ends = self.space.base, self.space.ends
        for move in self.space.moves_on.get(store, ()):
            if move >= known:
                break
            new = base[move]
            if layouts and not any(end in layouts for end in ends[move]):
                new *= self.copies
            if use[move]:
                self.cost += new - prices[move]
            else:
                marginal[move] = new + entry
            prices[move] = new

    def choose_layouts(self, store: int) -> None:
        """The layouts that are best for the moves in use: one, or more as long as each saves more than it costs."""
        if not self.problem.has_layouts:
            return
        used = self.in_use.get(store)
        if not used:
            return
        now = self.layouts.get(store, ())
        size, base, all_ends = self.space.size[store], self.space.base, self.space.ends
        chosen: list[int] = []
        open_moves = list(used)
        while open_moves:
            saved: dict[int, float] = {}
            for move in open_moves:
                for end in all_ends[move]:
                    saved[end] = saved.get(end, 0.0) + base[move]
            most = max(saved.values()) * (1 - 1e-9)
            # Of equally good ones the layout in force, then the first: a change must be worth it.
            best = min((end for end in saved if saved[end] >= most), key=lambda end: (end not in now, end))
            worth = saved[best] * (self.copies - 1) > size * (1 + 1e-9)
            if chosen and not (worth and self._fits(store, len(chosen) + 1)):
                break
            chosen.append(best)
            if self.problem.layouts == "one":
                break
            open_moves = [move for move in open_moves if best not in all_ends[move]]
        if set(chosen) == set(now):
            return
        if not now or self._layout_cost(store, chosen) < self._layout_cost(store, now) * (1 - 1e-9):
            self.set_layouts(store, tuple(chosen))

    def _layout_cost(self, store: int, layouts: Collection[int]) -> float:
        space = self.space
        return len(layouts) * space.size[store] + sum(
            space.base[move] * (1 if any(end in layouts for end in space.ends[move]) else self.copies)
            for move in self.in_use[store]
        )

    def _fits(self, store: int, copies: int) -> bool:
        if self.budget is None:
            return True
        now = max(1, len(self.layouts.get(store, ())))
        return self.storage + (copies - now) * self.space.size[store] <= self.budget

    @property
    def fits(self) -> bool:
        return self.budget is None or self.storage <= self.budget * (1 + 1e-12)

    # Trying something

    def mark(self) -> tuple[int, float, float]:
        """Where `back` leads to."""
        return len(self._journal), self.cost, self.storage

    def back(self, mark: tuple[int, float, float]) -> None:
        """Undoes everything since the mark."""
        undone = self._journal[mark[0] :]
        for kind, number, want, old in reversed(undone):
            if kind == _TAKE:
                self._drop(number)
            elif kind == _DROP:
                self._take(number)
            elif kind == _PUT:
                del self.paths[want]
            elif kind == _REMOVE:
                self.paths[want] = list(old)
            elif kind == _LAYOUT:
                self.set_layouts(number, tuple(old))
            elif kind == _PIN:
                self._release(number)
            else:
                self._hold(number)
        del self._journal[mark[0] :]
        self._opened.clear()
        _, self.cost, self.storage = mark

    def commit(self) -> None:
        """There is no way back any more."""
        self._journal.clear()

    # From and to solutions

    def load(self, paths: Mapping[Goal, Sequence[int]], layouts: Mapping[int, tuple[int, ...]]) -> None:
        """Takes over a whole plan in place of this one."""
        for want in list(self.paths):
            if want in self.paths:
                self.remove(want)
        if len(self.use) < len(self.space.base):
            self._meet_new_moves()
        for store, held in layouts.items():
            self.set_layouts(store, held)
        for want, path in paths.items():
            self.put(want, list(path))
        self._opened.clear()
        # Plans put together may hold paths for stores that none of the paths kept probes.
        while orphans := [want for want in self.paths if want not in self.asked and not self.users.get(want[1])]:
            self.remove(orphans[0])
        self.commit()

    def adopt(self, solution: Solution) -> None:
        """Takes over a plan that another searcher found."""
        space = self.space
        stores = {subquery: at for at, subquery in enumerate(space.subquery)}
        paths = {space.goal(want): space.read(want, path) for want, path in solution.paths.items() if path}
        ends = {attribute: at for at, attribute in enumerate(space.attributes)}
        layouts = {stores[sub]: tuple(ends[end] for end in held) for sub, held in solution.layouts.items()}
        self.stores = self.problem.materialize
        self.load(paths, layouts)

    def solution(self, searcher: str, seconds: float) -> Solution:
        """The plan as others know it, priced anew."""
        space = self.space
        paths: dict[Want, Path] = {want: () for want in self.problem.wants if len(want[1]) == 1}
        for want in sorted(self.paths):
            paths[space.want(want)] = space.path(self.paths[want])
        layouts = {
            space.subquery[store]: tuple(space.attributes[end] for end in held)
            for store, held in sorted(self.layouts.items())
            if held and (len(space.members[store]) == 1 or self.users.get(store))
        }
        return price(self.problem, paths, layouts, searcher=searcher, seconds=seconds)
