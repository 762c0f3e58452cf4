"""A plan while it is being searched for: paths for all wants, found one at a time by what they add to the cost.

Once `settle` has run, every want of the queries has a path, and every want that produces an open store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from watersmeet.optimize.heuristic.draft_cost import CLOSED, NOWHERE, PINNED, PUT, REMOVED, UNPINNED, Ledger
from watersmeet.optimize.heuristic.numbered_problem import Goal, Space
from watersmeet.optimize.problem import Path, Want
from watersmeet.optimize.solution import Solution, price

ROUTE = 150  # moves that could be looked at while a path is removed, put, and taken back


class Draft(Ledger):
    """A plan under construction: a path for each want, on a ledger of costs."""

    def __init__(self, space: Space, *, stores: bool = False) -> None:
        super().__init__(space)
        self.stores = stores and space.problem.materialize  # whether paths may lead through materialized stores
        self.asked = set(space.wants)
        self.effort = 0  # what a search has done: moves looked at, and as many for each route as the rest of it takes

    def shortest(self, want: Goal) -> tuple[float, list[int]]:
        """The path that adds least to the cost, and how much that is."""
        self.effort += ROUTE
        route = self.space.route(want, self.stores)
        if len(self.use) < len(self.space.step):
            self.meet_new_moves()
        extra, level = self.extra, self.level
        best = [0.0] * (len(route) + 1)
        taken = [(0, 0)] * (len(route) + 1)
        for node, options in route:
            least = CLOSED
            self.effort += len(options)
            for move, after, need in options:
                cost = extra[move] + best[after]
                if need > level[move]:
                    cost += need - level[move]
                if cost < least:
                    least = cost
                    taken[node] = move, after
            best[node] = least
        path = []
        node = len(route)
        while node:
            move, node = taken[node]
            path.append(move)
        return best[-1], path

    def put(self, want: Goal, path: list[int]) -> None:
        self.journal.append((PUT, 0, want, ()))
        self.set_path(want, path)
        for move in path:
            self.take(move, want)

    def remove(self, want: Goal) -> None:
        path = self.paths[want]
        self.set_path(want, None)
        self.journal.append((REMOVED, 0, want, path))
        for move in path:
            closed = self.drop(move, want)
            if closed >= 0:
                self._forget(closed)

    def _forget(self, closed: int) -> None:
        self.set_layouts(closed, ())
        for start in self.space.members[closed]:
            if (start, closed) not in self.asked and (start, closed) in self.paths:
                self.remove((start, closed))

    def pin(self, store: int) -> None:
        """Opens a materialized store before anything probes it."""
        self.journal.append((PINNED, store, NOWHERE, ()))
        self.hold(store)

    def unpin(self, store: int) -> None:
        self.journal.append((UNPINNED, store, NOWHERE, ()))
        if self.release(store):
            self._forget(store)

    def settle(self) -> None:
        """Finds paths for what opened stores ask for, and layouts for them."""
        decide = []
        while self.opened:
            store = self.opened.pop()
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
        if self.opened:
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
            if path == old and not self.opened:
                self.back(mark)
                continue
            self.put(want, path)
            self.settle()
            if self.cost > mark[1]:
                self.back(mark)

    def choose_layouts(self, store: int) -> None:
        """The layouts that are best for the moves in use: one, or more as long as each saves more than it costs."""
        if not self.problem.has_layouts:
            return
        used = self.in_use.get(store)
        if not used:
            return
        now = self.layouts.get(store, ())
        kept = self.space.keeping(store)
        broadcast, all_ends = self.space.broadcast, self.space.ends
        chosen: list[int] = []
        open_moves = list(used)
        while open_moves:
            saved: dict[int, float] = {}
            for move in open_moves:
                for end in all_ends[move]:
                    saved[end] = saved.get(end, 0.0) + broadcast[move]
            if not saved:
                chosen = chosen or [self.space.any_layout(store)]
                break
            most = max(saved.values()) * (1 - 1e-9)
            # Of equally good ones the active layout, then the first: a change must be worth it.
            best = min((end for end in saved if saved[end] >= most), key=lambda end: (end not in now, end))
            worth = saved[best] > kept * (1 + 1e-9)
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
        return len(layouts) * space.keeping(store) + sum(
            space.broadcast[move]
            for move in self.in_use[store]
            if space.ends[move] and not any(end in layouts for end in space.ends[move])
        )

    def _fits(self, store: int, copies: int) -> bool:
        if self.budget is None:
            return True
        now = max(1, len(self.layouts.get(store, ())))
        return self.storage + (copies - now) * self.space.rows(store) <= self.budget

    def load(self, paths: Mapping[Goal, Sequence[int]], layouts: Mapping[int, tuple[int, ...]]) -> None:
        """Takes over a whole plan in place of this one."""
        for want in list(self.paths):
            if want in self.paths:
                self.remove(want)
        if len(self.use) < len(self.space.step):
            self.meet_new_moves()
        for store, held in layouts.items():
            self.set_layouts(store, held)
        for want, path in paths.items():
            self.put(want, list(path))
        self.opened.clear()
        # Plans put together may hold paths for stores that none of the paths kept probes.
        while orphans := [want for want in self.paths if want not in self.asked and not self.users.get(want[1])]:
            self.remove(orphans[0])
        self.commit()

    def adopt(self, solution: Solution) -> None:
        """Takes over a plan that another searcher found."""
        space = self.space
        paths = {}
        for want, path in solution.paths.items():
            if path:
                goal = space.goal(want)
                space.route(goal, any(len(store) > 1 for store in path))  # a search goes on from here
                paths[goal] = space.read(want, path)
        layouts = {space.numbers[sub]: tuple(space.end(end) for end in held) for sub, held in solution.layouts.items()}
        self.stores = self.problem.materialize
        self.load(paths, layouts)

    def solution(self, searcher: str, seconds: float) -> Solution:
        """The plan as a Solution, priced again."""
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
