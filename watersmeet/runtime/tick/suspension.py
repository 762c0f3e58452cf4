"""Suspended queries: which queries of a plan a tick does not answer, and what follows from that.

A query that cannot be answered is suspended: the tick in which that happens is committed without its results, and later
ticks leave it out until it is resumed. Its streams are stored for it as if it were active, so that once it is resumed
it finds every result whose last member arrives from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from watersmeet.aggregate.choice import filtered, slice_needs
from watersmeet.home.manifest import Manifest
from watersmeet.model import JoinForm, Leaf, Query
from watersmeet.plan.parts import parts_of
from watersmeet.plan.ruleset import Ruleset
from watersmeet.runtime.tick.overload import Overload
from watersmeet.store.guard import ExpressionError
from watersmeet.terminal import resume_hint, visible

_log = logging.getLogger("watersmeet")


def is_new(query: Query, before: Manifest) -> bool:
    """Whether no committed tick has answered the query. Its name proves nothing: it may have been another query's. Nor
    does the tick that was promised to it: if the engine is killed before that, an earlier one is its first."""
    if query.name not in before.queries:
        return True
    if before.additions is None:
        return query.since > before.queries[query.name]
    return query.addition != before.additions.get(query.name, "")


def is_suspended(query: Query, before: Manifest) -> bool:
    """Whether a query is suspended; not if it was resumed from that suspension, or its name was another query's."""
    found = before.suspended.get(query.name)
    return found is not None and found.id != query.resumed and not is_new(query, before)


def suspended_names(queries: Iterable[Query], before: Manifest) -> frozenset[str]:
    return (
        frozenset(query.name for query in queries if is_suspended(query, before)) if before.suspended else frozenset()
    )


def resumed_names(queries: Iterable[Query], before: Manifest) -> frozenset[str]:
    """The queries that were resumed from the suspension that the manifest still names."""
    ids = {name: found.id for name, found in before.suspended.items()}
    return frozenset(query.name for query in queries if query.resumed and query.resumed == ids.get(query.name))


def idle_stores(rules: Ruleset, suspended: Collection[str]) -> set[str]:
    """The materialized stores that only suspended queries read: nobody makes their rows, so they are not complete."""
    if not suspended:
        return set()
    readers: dict[str, set[str]] = {store: set() for store in rules.materialized}
    for step in rules.all_steps():
        if step.store in readers:
            readers[step.store] |= rules.queries_of(step)
    return {store for store, names in readers.items() if names <= set(suspended)}


Confined = ExpressionError | Overload
CONFINED = (ExpressionError, Overload)  # failures of a tick that is repeated without the queries at fault


def at_fault(problem: Confined, queries: Iterable[Query]) -> set[str]:
    """The queries without which a tick that failed is repeated."""
    if isinstance(problem, Overload):
        return set(problem.queries)
    return owners(problem.expressions, queries)


def may_pass(problem: Confined, tries: int) -> bool:
    """Whether a tick that has failed `tries` times is repeated as it is."""
    return isinstance(problem, Overload) and problem.may_pass and tries == 1


def owners(failed: Collection[str], queries: Iterable[Query]) -> set[str]:
    """The queries that have one of these expressions. A plan evaluates expressions as queries have them, each by
    itself, or all conditions on a row as one, so that the text of one identifies it."""
    return {query.name for query in queries if not frozenset(failed).isdisjoint(_texts(query))}


def _texts(query: Query) -> Iterator[str]:
    """The expressions of a query that tasks or Spark evaluate once for all queries that have them."""
    for computed in (column for columns in query.spark_columns.values() for column in columns):
        yield computed.shown
        yield from (given.text for given in computed.call.inputs())
    yield from (expression.text for expression in query.form.over_rows)
    if query.join is not None:
        yield from _of_join(query.join)
    yield from _joined_conditions(query)


def _joined_conditions(query: Query) -> Iterator[str]:
    """What a plan makes of several conditions: those on a leaf and of WHERE, or those of WHERE and of an aggregate."""
    for part in parts_of([query]):
        yield from (alias.filter.text for alias in part.join.aliases if alias.filter is not None)
    for need in slice_needs(query.form, query.grid) if query.is_windowed else ():
        conditions = (filtered(partial, need.filter).filter for partial in need.partials)
        yield from (each.text for each in conditions if each is not None)


def _of_join(join: JoinForm) -> Iterator[str]:
    leaf = join.leaf or Leaf("")
    filters = (*(alias.filter for alias in join.aliases), leaf.filter, *(each for _, each in leaf.missing))
    yield from (each.text for each in filters if each is not None)
    for equality in (*join.equalities, *leaf.equalities):
        yield from (part.expression.text for part in (equality.left_key, equality.right_key) if part.column is None)
    for predicate in (*join.predicates, *leaf.predicates):
        for theta in (predicate.theta, predicate.mirrored):
            yield theta.text
            yield from (argument.text for argument in theta.arguments)
            keys = (*theta.left, *theta.right, *((theta.band.left, theta.band.right) if theta.band else ()))
            yield from (part.expression.text for part in keys if part.column is None)


def log_suspensions(home: Path, before: Manifest, after: Manifest) -> None:
    """Say which queries a tick has suspended."""
    for name, one in after.suspended.items():
        if one != before.suspended.get(name):
            why = f"{visible(one.reason)}; {resume_hint(home, name)}"
            _log.warning("query %s is suspended since tick %d: %s", name, one.tick, why)
