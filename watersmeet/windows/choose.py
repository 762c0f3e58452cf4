"""In which form each windowed query is computed: the one in which it is computed already, or the cheapest one.

A form is kept until another one is cheaper by more than the change costs (`plan/proposals.py`). Then the query has two
rules for a while: what the open windows need is in the stores of the form that it leaves, and that form answers them;
the new one answers the windows that begin after all rows so far (`windows/life.py`). The plan remembers both, and so
does the home (`slices.json`). Queries that it answered when they had one form are not among them; they are in that one
until a change pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from watersmeet.model import Query
from watersmeet.model.forms import Form, PairRows
from watersmeet.windows.costs import RESULTS, TickFacts
from watersmeet.windows.protocol import StoredWindows
from watersmeet.windows.table import cost_of, planned_windows

_LATER = (PairRows.kind,)  # forms that queries have had since homes remember forms
# Of the join below the windows of a query alone: its cost in a tick, and how many results it has.
JoinPrice = Callable[[Query], tuple[float, float]]


def with_chosen_forms(
    queries: Sequence[Query], stored: StoredWindows, facts: TickFacts, of_join: JoinPrice
) -> tuple[Query, ...]:
    """The queries, each in the form that is kept for it or in its cheapest one; of equal ones, the first."""
    return tuple(query.in_form(_chosen(query, stored, facts, of_join)) for query in queries)


def _chosen(query: Query, stored: StoredWindows, facts: TickFacts, of_join: JoinPrice) -> Form:
    if len(query.forms) <= 1:
        return query.form
    if stored.has_first_forms or (query.name in stored.answered and query.name not in stored.forms):
        return next(form for form in query.forms if form.kind not in _LATER)
    kept = next((form for form in query.forms if form.kind == stored.forms.get(query.name)), None)
    if kept is not None and not (query.backfill and kept.join is not None):  # with BACKFILL it is another query
        return kept
    prices = prices_of(query, facts, of_join)
    return min(query.forms, key=lambda form: prices[form.kind])


def leaving_queries(queries: Sequence[Query], stored: StoredWindows) -> tuple[Query, ...]:
    """Those that change their form, in the one that they leave."""
    found = []
    for query in queries:
        kind = stored.leaving.get(query.name, query.form.kind)
        if kind != query.form.kind and not query.backfill:  # with BACKFILL it is another query, and has no windows yet
            found += [query.in_form(form) for form in query.forms if form.kind == kind]
    return tuple(found)


def prices_of(query: Query, facts: TickFacts, of_join: JoinPrice) -> dict[str, float]:
    """What each form of a query would cost in a tick if it were alone, by kind."""
    return {form.kind: _price(query.in_form(form), facts, of_join) for form in query.forms}


def _price(query: Query, facts: TickFacts, of_join: JoinPrice) -> float:
    cost = 0.0
    if query.join is not None:
        if query.backfill:
            return inf  # results of a join are aggregated when they are found, and nowhere else
        cost, results = of_join(query)
        facts = replace(facts, joined={query.name: results})
    costs = cost_of(planned_windows([query], StoredWindows(), facts.partitions).rules, facts)
    return cost + costs.total - costs.by_stage.get(RESULTS, 0.0)  # which are the same in every form
