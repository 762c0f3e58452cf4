"""Plans of every shape, to prove that the plan does not change the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from hypothesis import strategies as st

from watersmeet.optimize.joingraph import Attribute, QueryGraph, Subquery, round_robin, round_robin_over, store_of
from watersmeet.optimize.problem import Path, Problem, Want
from watersmeet.optimize.solution import Solution, price
from watersmeet.plan.ruleset import Ruleset

Choose = Callable[[list[Subquery]], Subquery]
ChooseLayout = Callable[[list[Attribute]], Attribute]


def _first(options: list[Attribute]) -> Attribute:
    return options[0]


def simple(problem: Problem) -> Solution:
    """The first order that avoids cross products, over streams only."""
    return plan_by(problem, lambda options: next(option for option in options if option.is_stream))


@st.composite
def plans(draw: st.DrawFn, problem: Problem) -> Solution:
    """Any plan: any probe order, any subquery materialized anywhere, any layout, over any number of places."""
    return plan_by(
        problem, lambda options: draw(st.sampled_from(options)), lambda options: draw(st.sampled_from(options))
    )


def plan_by(problem: Problem, choose: Choose, choose_layout: ChooseLayout = _first) -> Solution:
    paths: dict[Want, Path] = {}
    waiting = list(problem.wants)
    while waiting:
        want = waiting.pop()
        if want in paths:
            continue
        paths[want] = _path(problem, problem.host(want[1]), want, choose)
        waiting += [
            (relation, store) for store in paths[want] if not store.is_stream for relation in sorted(store.relations)
        ]
    stores = {store_of(store) for path in paths.values() for store in path}
    layouts = {}
    for store in sorted(stores, key=lambda store: store.sort_key):
        candidates = list(problem.layout_candidates(store))
        if round_robin_over(candidates[0][1]):
            candidates = [(candidates[0][0], round_robin(number + 1)) for number in range(problem.partitions)]
        if problem.has_layouts and candidates:
            layouts[store] = (choose_layout(candidates),)
    return price(problem, paths, layouts)


def _path(problem: Problem, query: QueryGraph, want: Want, choose: Choose) -> Path:
    start, target = want
    joined, path = frozenset((start,)), []
    while joined != target.relations:
        options = [
            subquery
            for subquery in query.connected
            if subquery.relations <= target.relations
            and not subquery.relations & joined
            and subquery.relations & query.reachable(joined)
            and (subquery.is_stream or subquery in problem.materializable)
        ]
        path.append(choose(options))
        joined |= path[-1].relations
    return tuple(path)


@contextmanager
def no_indexes() -> Iterator[None]:
    """Plans without an index, and lookups that pass over all rows of a bucket, though it has few."""

    def unindexed(rules: Ruleset, *_: object) -> Ruleset:
        return replace(rules, stores=tuple(replace(rule, keys=(), scanned=rule.keys) for rule in rules.probed))

    with (
        mock.patch("watersmeet.plan.compile.without_indexes", unindexed),
        mock.patch("watersmeet.store.bucket.is_few", lambda *_: True),
    ):
        yield
