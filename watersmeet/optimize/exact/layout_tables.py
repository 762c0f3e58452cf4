"""What a query costs at least, by the layouts of the streams that it shares with other queries.

The relaxation of the whole program plays queries off against each other: half a layout for this one, half for that
one, and each divides its paths so that it hardly pays for the half that it lacks. A table says what a query really
costs if a stream has this layout or that one, and is added to the program as

  t[q,k]    query q relies on the set k of layouts of streams, an entry of its table
  (8)  what the moves, materialized stores, indexes and phases of query q cost  ≥  Σ_k cost(q,k) · t[q,k],
       where Σ_k t[q,k] = 1 and, for each layout of a stream, Σ t[q,k] over the entries k that rely on it  ≤  x[s,a]

which every plan satisfies. A cost is at first that of the relaxation of the query's own program with the layouts in
question fixed. Entries that the relaxation of the whole program then uses get the cost of the query's best plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from watersmeet.optimize.exact.lattice import Lattice, LatticeStore, lattice_of
from watersmeet.optimize.exact.program import Program
from watersmeet.optimize.exact.solver import Relaxation, solve_highs
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Problem

SMALLEST = 4  # relations; for smaller queries the relaxation knows all that a table could say
LARGEST = 400  # entries of a table
ENTRY_SECONDS = 0.5  # to find the best plan of one query with given layouts

Entry = frozenset[tuple[Subquery, int]]  # layouts relied on: streams and positions among their candidates


class Tightened:
    """A program with (8): its first variables are those of the program, those of the tables follow."""

    def __init__(self, program: Program, tables: Sequence[LayoutTable]) -> None:
        self.program = program
        self.tables = tables
        self.bound = 0.0
        self.relaxed: list[float] | None = None  # the values of the last relaxation
        self.model = program.model
        self._cost_rows: list[int] = []
        self._columns: list[dict[Entry, int]] = []

    def tighten(self, end: float) -> None:
        """Costs of best plans for the entries that the relaxation uses, until it uses no others."""
        self._build()
        relaxation = Relaxation(self.model)
        left = 2 * (end - time.monotonic())  # the first may take longer: its bound and its layouts are worth it
        while left > 0 and (relaxed := relaxation.solve(left)) is not None:
            cost, values = relaxed
            self.bound, self.relaxed = max(self.bound, cost), values
            used = [
                (number, entry)
                for number, columns in enumerate(self._columns)
                for entry, column in columns.items()
                if values[column] > 1e-6 and entry not in self.tables[number].exact
            ]
            if not used:
                break
            for number, entry in used:
                if time.monotonic() < end:
                    least = self.tables[number].sharpen(entry)
                    relaxation.coefficient(self._cost_rows[number], self._columns[number][entry], -least)
            left = end - time.monotonic()
        self._build()

    def extended(self, values: Sequence[float]) -> list[float]:
        """A solution of the program as one of this model."""
        stores = self.program.lattice.stores
        held = {(stores[s].subquery, a) for (s, a), column in self.program.x.items() if values[column] > 0.5}
        longer = list(values)
        for table in self.tables:
            costs = table.costs.items()
            best = min((cost, place) for place, (entry, cost) in enumerate(costs) if entry <= held)[1]
            longer += [1.0 if place == best else 0.0 for place in range(len(costs))]
        return longer

    def _build(self) -> None:
        program, lattice, model = self.program, self.program.lattice, self.program.model.copy()
        self.model, self._cost_rows, self._columns = model, [], []
        number = {store.subquery: s for s, store in enumerate(lattice.stores)}
        for table in self.tables:
            whole = table.query
            inside = {sub for sub in lattice.homes if sub.relations <= whole.relations and sub.links <= whole.links}
            paid = [i for i, move in enumerate(lattice.moves) if lattice.nodes[move.target][1] in inside]
            columns = [program.y[i] for i in paid] + [program.b[i] for i in paid if i in program.b]
            columns += [m for s, m in program.m.items() if lattice.stores[s].subquery in inside]
            columns += [program.v[i] for i in paid if i in program.v]
            columns += [*program.z.values(), *program.e.values()]
            t = {entry: model.variable() for entry in table.costs}
            model.row([(column, 1.0) for column in t.values()], 1.0, 1.0)
            self._columns.append(t)
            self._cost_rows.append(len(model.row_lower))
            least = [(t[entry], -cost) for entry, cost in table.costs.items()]
            model.row([(column, model.objective[column]) for column in columns] + least, 0.0)
            for stream, a in sorted({layout for entry in t for layout in entry}, key=str):
                relying = [(t[entry], 1.0) for entry in t if (stream, a) in entry]
                model.row([*relying, (program.x[number[stream], a], -1.0)], upper=0.0)


def tightened(problem: Problem, program: Program, end: float) -> Tightened:
    """The program with the tables for which there is time, those with the fewest entries first."""
    tables: list[LayoutTable] = []
    if problem.layouts == "one" and problem.has_layouts and len(problem.queries) > 1:
        wholes = {query.whole: query for query in problem.queries if len(query.relations) >= SMALLEST}
        for whole in sorted(wholes, key=lambda sub: sub.sort_key):
            own = Program(problem, lattice_of(problem, [wholes[whole]]))
            tables.append(LayoutTable(whole, own, program.lattice))
    tables = [table for table in sorted(tables, key=lambda table: table.entries) if 1 < table.entries <= LARGEST]
    now = time.monotonic()
    filled = now + 0.6 * (end - now)  # the rest is for the relaxation that uses them
    result = Tightened(program, [table for table in tables if table.fill(filled)])
    if result.tables:
        result.tighten(end)
    return result


@dataclass(frozen=True)
class _Choice:
    """A shared stream's layouts that matter to a query, and whether there are others."""

    store: int  # of the query's own lattice
    stream: Subquery
    own: tuple[int, ...]
    others: bool


class LayoutTable:
    """The least cost of one query for each combination of shared layouts."""

    def __init__(self, query: Subquery, own: Program, lattice: Lattice) -> None:
        self.query = query
        self.costs: dict[Entry, float] = {}
        self.exact: set[Entry] = set()
        self._own = own
        self._choices = [
            self._choice(s, store)
            for s, store in enumerate(own.lattice.stores)
            if store.is_stream and len(store.layouts) > 1 and len(lattice.homes[store.subquery]) > 1
        ]

    def _choice(self, s: int, store: LatticeStore) -> _Choice:
        own = {a for move in self._own.lattice.moves if move.store == s for a in move.known}
        return _Choice(s, store.subquery, tuple(sorted(own)), len(own) < len(store.layouts))

    @property
    def entries(self) -> int:
        return prod(len(choice.own) + choice.others for choice in self._choices)

    def fill(self, end: float) -> bool:
        """Gives every entry a cost, if there is time."""
        model = self._own.model
        relaxation = Relaxation(model)
        for entry in self._all():
            for column, value in self._fixed(entry):
                relaxation.fix(column, value)
            relaxed = relaxation.solve(end - time.monotonic())
            if relaxed is None:
                return False
            self.costs[entry], values = relaxed
            chosen = (value for value, integer in zip(values, model.integer, strict=True) if integer)
            if all(abs(value - round(value)) < 1e-6 for value in chosen):
                self.exact.add(entry)
        for entry, cost in list(self.costs.items()):  # those that rely on more than another and are not cheaper
            if any(fewer < entry and self.costs[fewer] <= cost + 1e-9 for fewer in self.exact):
                del self.costs[entry]
        self.exact &= self.costs.keys()
        return True

    def sharpen(self, entry: Entry) -> float:
        model = self._own.model.copy()
        for column, value in self._fixed(entry):
            model.lower[column] = model.upper[column] = value
        self.costs[entry] = max(self.costs[entry], solve_highs(model, ENTRY_SECONDS).bound)
        self.exact.add(entry)
        return self.costs[entry]

    def _fixed(self, entry: Entry) -> Iterator[tuple[int, float]]:
        for choice in self._choices:
            for a in choice.own:
                yield self._own.x[choice.store, a], 1.0 if (choice.stream, a) in entry else 0.0

    def _all(self) -> Iterator[Entry]:
        options = [[(choice.stream, a) for a in choice.own] for choice in self._choices]
        for chosen in product(
            *([*own, None] if c.others else own for c, own in zip(self._choices, options, strict=True))
        ):
            yield frozenset(layout for layout in chosen if layout is not None)
