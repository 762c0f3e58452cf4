"""A store has the indexes that steps of every tick look up, and no others."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.declarations import bigint_streams, numbered_queries
from tests.support.plans import plan_by
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Problem
from watersmeet.optimize.statistics import Statistics
from watersmeet.options import Options
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.parts import parts_of
from watersmeet.plan.planner import START, make_plan
from watersmeet.plan.ruleset import Key, all_steps


def test_a_walk_that_runs_once_has_no_index_of_its_own() -> None:
    streams = bigint_streams({"r": ("a",), "s": ("a", "b"), "t": ("b", "c"), "u": ("c",)})
    chain = "SELECT r.a FROM r, s, t, u WHERE r.a = s.a AND s.b = t.b AND t.c = u.c WINDOW UNBOUNDED"
    queries = numbered_queries([chain], streams)
    problem = Problem(tuple(part.graph for part in parts_of(queries)))

    def largest_but_r_and_s(options: list[Subquery]) -> Subquery:
        """So that no row of r looks for rows of the stream s, except to fill the store of r, s and t."""
        return max((option for option in options if option.relations != {"r", "s"}), key=len)

    rules = compile_solution(tuple(streams.values()), queries, plan_by(problem, largest_but_r_and_s))
    used: dict[bool, set[tuple[str, Key]]] = {True: set(), False: set()}  # in every tick, or once
    for start in rules.starts:
        used[start.phase > 0] |= {(step.store, step.key) for step in all_steps(start.steps)}
    assert {(rule.name, key) for rule in rules.probed for key in rule.keys} == used[True]
    assert used[False] - used[True], "some walk of phase 0 looks up another key"


STREAMS = bigint_streams({"regions": ("r",), "orders": ("r", "c"), "customers": ("c",)})
SQL = "SELECT orders.c FROM regions, orders, customers WHERE regions.r = orders.r AND orders.c = customers.c"
ROWS = {"regions": 8.0, "orders": 800_000.0, "customers": 80_000.0}  # in the windows


def keys_of_orders(ticks: float, sql: str = SQL, sizes: Mapping[str, float] = ROWS) -> tuple[set[str], set[str]]:
    """The keys that orders are indexed by, and those that passes over all orders look up."""
    arrivals = {name: rows / ticks for name, rows in sizes.items()}
    known = Statistics(sizes, arrivals=arrivals) if sizes else Statistics()
    queries = numbered_queries([f"{sql} WINDOW UNBOUNDED"], STREAMS)
    plan = make_plan(START, tuple(STREAMS.values()), queries, Options(searcher="flat"), known)
    rule = plan.rules.store("orders")
    indexed, scanned = ({key[0].name for key in keys} for keys in (rule.keys, rule.scanned))
    assert rule.derived.keys == rule.keys
    return indexed, scanned


def test_a_key_that_few_rows_look_up_has_no_index() -> None:
    assert keys_of_orders(8) == ({"c"}, {"r"}), "a region in a tick, and 10,000 customers"


def test_a_pass_does_not_pay_where_few_of_the_rows_are_new() -> None:
    assert keys_of_orders(1000) == ({"c", "r"}, set())


def test_where_nothing_is_known_every_key_has_an_index() -> None:
    assert keys_of_orders(8, sizes={}) == ({"c", "r"}, set())


def test_a_leaf_has_its_index() -> None:
    sql = "SELECT regions.r FROM regions WHERE EXISTS (SELECT 1 FROM orders [UNBOUNDED] WHERE orders.r = regions.r)"
    indexed, scanned = keys_of_orders(8, sql)
    assert (indexed, scanned) == ({"r"}, set())
