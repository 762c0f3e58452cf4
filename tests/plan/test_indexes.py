"""A store has the indexes that steps of every tick look up, and no others."""

from __future__ import annotations

from tests.support.declarations import bigint_streams, numbered_queries
from tests.support.plans import plan_by
from watersmeet.optimize.joingraph import Subquery, graph_of
from watersmeet.optimize.problem import Problem
from watersmeet.plan.compile import compile_solution
from watersmeet.plan.ruleset import Key, all_steps


def test_a_walk_that_runs_once_has_no_index_of_its_own() -> None:
    streams = bigint_streams({"r": ("a",), "s": ("a", "b"), "t": ("b", "c"), "u": ("c",)})
    chain = "SELECT r.a FROM r, s, t, u WHERE r.a = s.a AND s.b = t.b AND t.c = u.c WINDOW UNBOUNDED"
    queries = numbered_queries([chain], streams)
    problem = Problem(tuple(graph_of(query) for query in queries))

    def largest_but_r_and_s(options: list[Subquery]) -> Subquery:
        """So that no row of r looks for rows of the stream s, except to fill the store of r, s and t."""
        return max((option for option in options if option.relations != {"r", "s"}), key=len)

    rules = compile_solution(tuple(streams.values()), queries, plan_by(problem, largest_but_r_and_s))
    used: dict[bool, set[tuple[str, Key]]] = {True: set(), False: set()}  # in every tick, or once
    for start in rules.starts:
        used[start.phase > 0] |= {(step.store, step.key) for step in all_steps(start.steps)}
    assert {(rule.name, key) for rule in rules.stores for key in rule.keys} == used[True]
    assert used[False] - used[True], "some walk of phase 0 looks up another key"
