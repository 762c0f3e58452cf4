"""Random problems of the optimizer, for tests and benchmarks: the environment of the CLASH paper (section VII-C).

An environment is a set of relations with a few attributes each, of which every attribute is paired with one of another
relation. Queries grow from a random relation along these pairs. So queries over few relations overlap much, and
queries over many relations little.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from watersmeet.model import Band, ColumnRef, KeyPart, Theta
from watersmeet.model.expression import Sql
from watersmeet.optimize.demands import Demand
from watersmeet.optimize.heuristic.individual import plans_alone
from watersmeet.optimize.joingraph import NO_KEY, Link, QueryGraph, stream_of
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.solution import Solution
from watersmeet.optimize.statistics import Statistics
from watersmeet.optimize.weights import PAPER, Weights

# All kinds of costs, for problems of a hundred rows.
IN_TUPLES = Weights(
    miss=0.8,
    hit=1.1,
    far=0.1,
    match=0.7,
    sent=0.5,
    step=0.7,
    bucket=0.1,
    kept_row=1.5,
    index_entry=0.6,
    file=0.4,
    phase=3.0,
)

Pair = tuple[tuple[str, str], tuple[str, str]]  # two attributes that may be compared


def link(left: str, right: str) -> Link:
    """`link("r.a", "s.b")`: the equality r.a = s.b."""
    one, other = ((relation, _key(column)) for relation, column in sorted((_split(left), _split(right))))
    return Link(one, other)


def theta_link(one: str, other: str, text: str = "x < y", band: bool = False) -> Link:
    """A predicate between two relations that is no equality; as a band it is thought to be more selective."""
    left, right = sorted((one, other))
    part = _key("x")
    theta = Theta(Sql((text,)), (part,), (part,), Band(part, part, 0, 1) if band else None)
    return Link((left, NO_KEY), (right, NO_KEY), theta)


def _key(column: str) -> KeyPart:
    return KeyPart(ColumnRef(column, "bigint"), "bigint")


def with_thetas(query: QueryGraph, chance: random.Random, share: float) -> QueryGraph:
    """The query with a share of its equalities replaced by other predicates between the same relations."""
    links = set()
    for one in sorted(query.links, key=lambda link: link.text):
        if chance.random() < share:
            left, right = one.relations
            links.add(theta_link(left, right, text=chance.choice("<>"), band=chance.random() < 0.5))
        else:
            links.add(one)
    return QueryGraph(query.name, query.relations, frozenset(links))


def graph(name: str, *equalities: str) -> QueryGraph:
    """`graph("q", "r.a = s.a", "s.b = t.b")`: a query by its equalities, relations in the order of appearance."""
    links = [tuple(side.strip() for side in equality.split("=")) for equality in equalities]
    relations = dict.fromkeys(_split(side)[0] for pair in links for side in pair)
    return QueryGraph(name, tuple(relations), frozenset(link(left, right) for left, right in links))


def environment(
    relations: int, attributes: int = 3, *, seed: int = 0, columns: Sequence[str] = "abcdefgh"
) -> list[Pair]:
    """Pairs of attributes that queries may compare: each attribute in one pair, of two different relations."""
    chance = random.Random(seed)
    width = len(str(relations - 1))
    ends = [(f"r{at:0{width}}", columns[column]) for at in range(relations) for column in range(attributes)]
    chance.shuffle(ends)
    pairs = []
    while ends:
        end = ends.pop()
        partner = next((other for other in reversed(ends) if other[0] != end[0]), None)
        if partner is not None:
            ends.remove(partner)
            pairs.append((end, partner))
    return pairs


def random_queries(
    pairs: Sequence[Pair], queries: int, size: int, *, seed: int = 0, attempts: int | None = None
) -> list[QueryGraph]:
    """Different queries of one size; fewer where the environment has not as many, or few attempts are made."""
    chance = random.Random(seed)
    touching: dict[str, list[Pair]] = {}
    for pair in pairs:
        for relation, _ in pair:
            touching.setdefault(relation, []).append(pair)
    found: dict[frozenset[Link], QueryGraph] = {}
    for _ in range(20 * queries if attempts is None else attempts):
        if len(found) == queries:
            break
        inside = {chance.choice(sorted(touching))}
        chosen: list[Pair] = []
        while len(inside) < size:
            border = [
                pair
                for relation in sorted(inside)
                for pair in touching[relation]
                if len({pair[0][0], pair[1][0]} - inside) == 1
            ]
            if not border:
                break
            chosen.append(chance.choice(border))
            inside |= {chosen[-1][0][0], chosen[-1][1][0]}
        if len(inside) == size:
            links = frozenset(link(".".join(one), ".".join(other)) for one, other in chosen)
            found.setdefault(links, QueryGraph(f"q{len(found)}", tuple(sorted(inside)), links))
    return list(found.values())


def paper_problem(
    relations: int,
    queries: int,
    size: int,
    *,
    seed: int = 0,
    partitions: int = 4,
    materialize: bool = True,
    layouts: str = "one",
    rate: float = 100.0,
    attempts: int | None = None,
) -> Problem:
    """Equal rates, selectivity 1/rate: every join has as many tuples as one stream."""
    pairs = environment(relations, seed=seed)
    statistics = Statistics(
        {relation: rate for pair in pairs for relation, _ in pair}, {frozenset(pair): 1 / rate for pair in pairs}
    )
    asked = tuple(random_queries(pairs, queries, size, seed=seed, attempts=attempts))
    return Problem(asked, statistics, partitions, materialize, layouts)


def mixed_problem(
    chance: random.Random,
    *,
    relations: int,
    queries: int,
    largest: int,
    partitions: int = 1,
    materialize: bool = False,
    layouts: str = "one",
    spare_storage: float | None = None,
    thetas: float = 0.0,
) -> Problem:
    """Unequal sizes and selectivities, queries of several sizes, some of them with a cycle, and with `thetas` a share
    of predicates that are no equalities.

    `spare_storage` is a storage budget as a share of what the streams need, on top of that."""
    pairs = environment(relations, seed=chance.randrange(10**6))
    sizes = {f"r{at}": float(chance.choice((1, 10, 50, 100, 1000))) for at in range(relations)}
    statistics = Statistics(
        {relation: sizes.get(relation, 100.0) for pair in pairs for relation, _ in pair},
        {frozenset(pair): chance.choice((0.001, 0.01, 0.02, 0.1)) for pair in pairs},
    )
    asked: dict[frozenset[Link], QueryGraph] = {}
    for at in range(queries):
        size, seed = chance.randint(2, largest), chance.randrange(10**6)
        for query in random_queries(pairs, 1, size, seed=seed) or random_queries(pairs, 1, 2, seed=seed):
            closing = [link(".".join(a), ".".join(b)) for a, b in pairs if {a[0], b[0]} <= set(query.relations)]
            links = query.links | set(closing) if chance.random() < 0.3 else query.links
            asked.setdefault(links, QueryGraph(f"q{at}", query.relations, links))
    if thetas:
        replaced = [with_thetas(query, chance, thetas) for query in asked.values()]
        asked = {query.links: query for query in replaced}
    used = {relation for query in asked.values() for relation in query.relations}
    budget = None if spare_storage is None else (1 + spare_storage) * sum(statistics.size(one) for one in sorted(used))
    weights = chance.choice((PAPER, PAPER, replace(PAPER, kept_row=4.0), IN_TUPLES))
    graphs = tuple(asked.values())
    demands = random_demands(graphs, chance) if weights is IN_TUPLES else {}
    return Problem(graphs, statistics, partitions, materialize, layouts, budget, weights=weights, demands=demands)


def random_demands(queries: Sequence[QueryGraph], chance: random.Random) -> dict[str, Demand]:
    """Filters and windows of some queries."""
    found = {}
    for query in queries:
        filtered = [relation for relation in query.relations if chance.random() < 0.3]
        shorter = [relation for relation in query.relations if chance.random() < 0.2]
        if chance.random() < 0.7:
            found[query.name] = Demand(
                {one: (stream_of(one), chance.choice(("x = 1", "x > 1"))) for one in filtered},
                {one: chance.choice((0.1, 0.5)) for one in shorter},
            )
    return found


def plan_alone(problem: Problem, query: QueryGraph) -> Solution:
    """The plan of one query by itself."""
    (plan,) = plans_alone(replace(problem, queries=(query,), storage_budget=None)).values()
    return plan


def _split(attribute: str) -> tuple[str, str]:
    relation, _, column = attribute.partition(".")
    return relation, column
