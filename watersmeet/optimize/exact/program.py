"""The integer program whose solutions are the plans of a lattice.

Variables, all between 0 and 1
  y[i]      move i is made                                                      integer
  v[i]      how much of the difference move i costs between the want that needs least of it and the one that needs most;
            none where all need the same
  b[i]      move i is a broadcast; none where every layout of its store is known to it, or none would help it
  m[s]      store s is materialized                                             integer
  x[s,a]    store s has a layout by attribute a; none where a store has no choice   integer
  z[s,k]    store s is indexed by key k; none where that costs nothing
  l[s,k]    the rows of store s are complete only after phase k                 integer
  e[k]      a tick has a phase after phase k; l and e only where phases cost something   integer
  f[w,i]    share of the way to want w that leads over move i

Objective
  (0)  Σ_i (fixed(i) + least(i)) · y[i] + (most(i) − least(i)) · v[i] + broadcast(i) · b[i]
       + Σ_s keeping(s) · (copies of s, a stream's first is free) + Σ indexing(s) · z[s,k] + Σ_k phase · e[k]

Constraints
  (1)  for each want w, at each node: flow in = flow out, but the origin emits and the target takes 1, or m[s] where
       w is wanted only for the materialized store s
  (2)  f[w,i] ≤ y[i];  (cost(w,i) − least(i)) / (most(i) − least(i)) · f[w,i] ≤ v[i];  y[i] ≤ z[s,k] for the key of i
  (3)  Σ f[w,i] over the moves i of w into the materialized store s  ≤  m[s]
  (4)  Σ_a x[s,a] = 1 for streams, = m[s] for materialized stores; ≥ instead of = where a store may have many layouts
  (5)  y[i] − b[i]  ≤  Σ x[s,a] over the attributes a that i knows
  (6)  Σ (f[w,i] − b[i]) over the moves i of w into s that know nothing outside a set A  ≤  Σ_{a∈A} x[s,a],
       for each relation over the stream apart where s is a stream's
  (7)  Σ_s rows(s) · copies of s  ≤  storage budget
  (9)  where w sees rows of the current tick in s:  Σ f[w,i] over the moves i of w into s  ≤  t[1]  and
       l[s,k] + Σ f[w,i] − 1  ≤  t[k+1],  with t[k] = l[s',k] where w is wanted for the store s', otherwise e[k];
       l[s,k] ≤ e[k]

(8) is in `layout_tables`. (3) and (6) add over all moves of a want because a path enters a store once (a stream's: once
for each relation over it). For plans (5) would do without (6), but then the relaxation may divide a path over several
ways into a store and pay a broadcast on none of them: (6) halves the gap. Flow is by want, not by start: one flow for
all wants of a start would need y only at its average.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from watersmeet.optimize.exact.lattice import NO_STORE, Lattice, LatticeWant
from watersmeet.optimize.exact.solver import INFINITY, Model
from watersmeet.optimize.joingraph import Attribute, Subquery
from watersmeet.optimize.phases import PathPhases, seen
from watersmeet.optimize.problem import Path, Problem, Want

Paths = dict[Want, Path]
Layouts = dict[Subquery, tuple[Attribute, ...]]
Index = tuple[int, frozenset[Attribute]]  # a store, and a key that it is probed by


class Program:
    def __init__(self, problem: Problem, lattice: Lattice) -> None:
        self.problem = problem
        self.lattice = lattice
        self.model = Model()
        self.m: dict[int, int] = {}
        self.x: dict[tuple[int, int], int] = {}
        self.y: list[int] = []
        self.v: dict[int, int] = {}
        self.z: dict[Index, int] = {}
        self.l: dict[tuple[int, int], int] = {}
        self.e: dict[int, int] = {}
        self._needs: dict[tuple[int, int], float] = {}  # by want and move, what the want needs of the move
        self._spans: list[tuple[float, float]] = []  # of each move the least and the most that a want needs
        self.b: dict[int, int] = {}
        self.f: dict[tuple[int, int], int] = {}
        self._wants_of: dict[int, list[int]] = defaultdict(list)  # by the store that they are for
        self._add_stores()
        self._add_phases()
        self._find_needs()
        self._add_moves()
        for number, want in enumerate(lattice.wants):
            self._wants_of[want.store].append(number)
            self._add_want(number, want)

    def _add_stores(self) -> None:
        model, many = self.model, self.problem.layouts == "many"
        stored: list[tuple[int, float]] = []
        held = 0.0
        for s, store in enumerate(self.lattice.stores):
            choices = range(len(store.layouts)) if len(store.layouts) > 1 else range(0)
            by_layout = many and bool(choices)  # then each layout is a copy to pay, otherwise the store is one
            if not store.is_stream:
                self.m[s] = model.variable(0.0 if by_layout else store.keeping, integer=True, priority=2)
            for a in choices:
                cost = store.keeping if by_layout else 0.0
                self.x[s, a] = model.variable(cost, integer=True, priority=3 if store.is_stream else 1)
            layouts = [(self.x[s, a], 1.0) for a in choices]
            if choices and store.is_stream:
                model.row(layouts, 1.0, INFINITY if many else 1.0)  # (4)
            elif choices:
                model.row([*layouts, (self.m[s], -1.0)], 0.0, INFINITY if many else 0.0)  # (4)
            if by_layout:
                stored += [(variable, store.rows) for variable, _ in layouts]
                model.offset -= store.keeping if store.is_stream else 0.0
            elif store.is_stream:
                held += store.rows
            else:
                stored.append((self.m[s], store.rows))
        if self.problem.storage_budget is not None:
            # In thousandths of the budget: a solver's absolute tolerance must not let a plan exceed it visibly.
            unit = self.problem.storage_budget / 1000
            terms = [(variable, size / unit) for variable, size in stored]
            model.row(terms, upper=(self.problem.storage_budget - held) / unit)  # (7)

    def _add_phases(self) -> None:
        if not self.problem.has_phases:
            return
        longest = max(len(query.relations) for query in self.problem.queries)
        cost = self.problem.phases(2)
        self.e = {k: self.model.variable(cost, integer=True, priority=2) for k in range(1, longest - 1)}
        for s in self.m:
            for k in range(1, len(self.lattice.stores[s].subquery) - 1):
                self.l[s, k] = self.model.variable(integer=True, priority=2)
                self.model.row([(self.l[s, k], 1.0), (self.e[k], -1.0)], upper=0.0)  # (9)

    def _find_needs(self) -> None:
        lattice, of_move = self.lattice, [list[float]() for _ in self.lattice.moves]
        for w, want in enumerate(lattice.wants):
            for i in want.moves:
                move = lattice.moves[i]
                here, joined = lattice.nodes[move.source][1], lattice.nodes[move.target][1]
                self._needs[w, i] = self.problem.needed(move.cost, (want.start, want.subquery), here, joined)
                of_move[i].append(self._needs[w, i])
        self._spans = [(min(needs, default=0.0), max(needs, default=0.0)) for needs in of_move]

    def _add_moves(self) -> None:
        model = self.model
        for i, move in enumerate(self.lattice.moves):
            least, most = self._spans[i]
            self.y.append(model.variable(move.cost.fixed + least, integer=True))
            if most > least * (1 + 1e-9):
                self.v[i] = model.variable(most - least)
            indexing = self.lattice.stores[move.store].indexing
            if indexing and move.ends:
                if (move.store, move.ends) not in self.z:
                    self.z[move.store, move.ends] = model.variable(indexing)
                model.row([(self.y[i], 1.0), (self.z[move.store, move.ends], -1.0)], upper=0.0)  # (2)
            if len(move.known) < len(self.lattice.stores[move.store].layouts):
                self.b[i] = model.variable(move.broadcast)
                known = [(self.x[move.store, a], -1.0) for a in move.known]
                model.row([(self.y[i], 1.0), (self.b[i], -1.0), *known], upper=0.0)  # (5)

    def _add_want(self, w: int, want: LatticeWant) -> None:
        model, moves = self.model, self.lattice.moves
        balance: dict[int, list[tuple[int, float]]] = defaultdict(list)
        entering: dict[int, list[tuple[int, float]]] = defaultdict(list)
        choosing: dict[Subquery, list[int]] = defaultdict(list)  # by what is probed, the moves that may be a broadcast
        for i in want.moves:
            move = moves[i]
            self.f[w, i] = flow = model.variable()
            balance[move.source].append((flow, -1.0))
            balance[move.target].append((flow, 1.0))
            model.row([(flow, 1.0), (self.y[i], -1.0)], upper=0.0)  # (2)
            if i in self.v and self._level(w, i):
                model.row([(flow, self._level(w, i)), (self.v[i], -1.0)], upper=0.0)  # (2)
            if move.store in self.m:
                entering[move.store].append((flow, 1.0))
            if i in self.b:
                choosing[move.probed].append(i)
        for node, terms in balance.items():  # (1)
            if node == want.target and want.store != NO_STORE:
                model.row([*terms, (self.m[want.store], -1.0)], 0.0, 0.0)
            elif node != want.origin:
                amount = 1.0 if node == want.target else 0.0
                model.row(terms, amount, amount)
        for s, terms in entering.items():
            model.row([*terms, (self.m[s], -1.0)], upper=0.0)  # (3)
            if self.e and seen(want.start, self.lattice.stores[s].subquery):
                self._add_order(want, s, terms)
        for candidates in choosing.values():
            s = moves[candidates[0]].store
            for known in sorted({moves[i].known for i in candidates}):
                within = [i for i in candidates if set(moves[i].known) <= set(known)]
                if len(within) > 1:  # for one move (5) says the same
                    flows = [(self.f[w, i], 1.0) for i in within] + [(self.b[i], -1.0) for i in within]
                    model.row([*flows, *((self.x[s, a], -1.0) for a in known)], upper=0.0)  # (6)

    def _level(self, w: int, i: int) -> float:
        least, most = self._spans[i]
        return (self._needs[w, i] - least) / (most - least)

    def _add_order(self, want: LatticeWant, s: int, entering: list[tuple[int, float]]) -> None:
        after = self.e
        if want.store != NO_STORE:
            after = {k: column for (kept, k), column in self.l.items() if kept == want.store}
        self.model.row([*entering, (after[1], -1.0)], upper=0.0)  # (9)
        for k in range(1, len(self.lattice.stores[s].subquery) - 1):
            self.model.row([*entering, (self.l[s, k], 1.0), (after[k + 1], -1.0)], upper=1.0)  # (9)

    def plan(self, values: Sequence[float]) -> tuple[Paths, Layouts]:
        """The paths and layouts of a solution: in what it chose, the cheapest path to all that is really needed."""
        lattice, built = self.lattice, {s for s, m in self.m.items() if values[m] > 0.5}
        made = {
            i
            for i, move in enumerate(lattice.moves)
            # A solution may have a move that no flow needs, even into a store that it does not materialize.
            if values[self.y[i]] > 0.5 and (move.store in built or move.store not in self.m)
        }
        chosen = {
            s: tuple(a for a in range(len(store.layouts)) if (s, a) not in self.x or values[self.x[s, a]] > 0.5)
            for s, store in enumerate(lattice.stores)
        }
        paths: Paths = {}
        used = {s for s, store in enumerate(lattice.stores) if store.is_stream}
        pending = [NO_STORE]
        while pending:
            for w in self._wants_of[pending.pop()]:
                want = lattice.wants[w]
                # Along the flow, because other paths may need more phases.
                flowing = {i for i in want.moves if i in made and values[self.f[w, i]] > 1e-6}
                steps = self._cheapest(w, flowing, chosen) or self._cheapest(w, made.intersection(want.moves), chosen)
                paths[want.start, want.subquery] = tuple(lattice.moves[i].probed for i in steps)
                entered = {lattice.moves[i].store for i in steps} - used
                used |= entered
                pending += sorted(entered)
        for start, subquery in self.problem.wants:
            paths.setdefault((start, subquery), ())  # a query over one relation
        layouts = {
            lattice.stores[s].subquery: tuple(lattice.stores[s].layouts[a] for a in chosen[s])
            for s in sorted(used)
            if chosen[s]
        }
        return paths, layouts

    def _cheapest(self, w: int, made: set[int], chosen: Mapping[int, tuple[int, ...]]) -> list[int]:
        """The cheapest path to a want by some moves; empty if there is none."""
        moves, nodes, want = self.lattice.moves, self.lattice.nodes, self.lattice.wants[w]
        best: dict[int, tuple[float, list[int]]] = {want.origin: (0.0, [])}
        for i in sorted(made, key=lambda i: (len(nodes[moves[i].source][1]), i)):
            move = moves[i]
            if move.source in best:
                free = i not in self.b or any(a in chosen[move.store] for a in move.known)
                cost = best[move.source][0] + self._needs[w, i] + move.cost.fixed + (0.0 if free else move.broadcast)
                if move.target not in best or cost < best[move.target][0]:
                    best[move.target] = cost, [*best[move.source][1], i]
        return best[want.target][1] if want.target in best else []

    def values(self, paths: Mapping[Want, Path], layouts: Mapping[Subquery, Sequence[Attribute]]) -> list[float] | None:
        """The solution that a given plan is; None if the plan has what the lattice left out."""
        moves, stores = self.lattice.moves, self.lattice.stores
        values = [0.0] * len(self.model.objective)
        used = {s for s, store in enumerate(stores) if store.is_stream}
        pending = [NO_STORE]
        while pending:
            for w in self._wants_of[pending.pop()]:
                want = self.lattice.wants[w]
                following = {(moves[i].source, moves[i].probed): i for i in want.moves}
                here = want.origin
                for probed in paths.get((want.start, want.subquery), ()):
                    i = following.get((here, probed), -1)
                    if i < 0:
                        return None
                    values[self.f[w, i]] = values[self.y[i]] = 1.0
                    if i in self.v:
                        values[self.v[i]] = max(values[self.v[i]], self._level(w, i))
                    index = (moves[i].store, moves[i].ends)
                    if index in self.z:
                        values[self.z[index]] = 1.0
                    here = moves[i].target
                    if moves[i].store not in used:
                        used.add(moves[i].store)
                        pending.append(moves[i].store)
                if here != want.target:
                    return None
        self._set_stores(values, used, paths, layouts)
        return values

    def _set_stores(
        self,
        values: list[float],
        used: set[int],
        paths: Mapping[Want, Path],
        layouts: Mapping[Subquery, Sequence[Attribute]],
    ) -> None:
        """The values of all that is not of a move: stores and their layouts, phases, and which moves are broadcasts."""
        moves, stores = self.lattice.moves, self.lattice.stores
        phases = PathPhases(paths)
        for s in used:
            if s in self.m:
                values[self.m[s]] = 1.0
                for k in range(1, phases.level(stores[s].subquery) if self.e else 1):
                    values[self.l[s, k]] = 1.0
            if (s, 0) in self.x:
                held = layouts.get(stores[s].subquery, ())
                for a in [a for a, layout in enumerate(stores[s].layouts) if layout in held] or [0]:
                    values[self.x[s, a]] = 1.0
        for k in range(1, phases.count if self.e else 1):
            values[self.e[k]] = 1.0
        for i, b in self.b.items():
            known = any(values[self.x[moves[i].store, a]] for a in moves[i].known)
            values[b] = 0.0 if known else values[self.y[i]]
