"""In which form each windowed query is computed: the one in which it is computed already, or the cheapest one.

A form is kept until another one is cheaper by more than the change costs (`plan/proposals.py`). Then the query has two
rules for a while: what the open windows need is in the stores of the form that it leaves, and that form answers them;
the new one answers the windows that begin after all rows so far (`windows/life.py`). Forms that read the rows of
windows have nothing else to keep: among them the cheapest is taken in every plan. The plan remembers forms, and so does
the home (`slices.json`). Queries that it answered when they had one form are not among them; they begin in that one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from watersmeet.model import Query
from watersmeet.model.forms import Form, PairRows, TaskSql, WindowSql
from watersmeet.windows.costs import RESULTS, TickFacts
from watersmeet.windows.pairs.plan import in_windows
from watersmeet.windows.protocol import StoredWindows
from watersmeet.windows.table import cost_of, operator_of, planned_windows

_LATER = (PairRows.kind,)  # forms that queries have had since homes remember forms
# Of the join below the windows of a query alone: its cost in a tick, and how many results it has.
JoinPrice = Callable[[Query], tuple[float, float]]


def with_chosen_forms(
    queries: Sequence[Query],
    stored: StoredWindows,
    facts: TickFacts,
    of_join: JoinPrice,
    wanted: Collection[str] = (),
) -> tuple[Query, ...]:
    """The queries, each in the form that is kept for it or in its cheapest one; of equal ones, the first. Those that
    are `wanted` in the one that is kept have no other."""
    return tuple(query.in_form(_chosen(query, stored, facts, of_join, query.name in wanted)) for query in queries)


def _chosen(query: Query, stored: StoredWindows, facts: TickFacts, of_join: JoinPrice, is_wanted: bool) -> Form:
    if len(query.forms) <= 1:
        return query.form
    kept = _of_kind(query, stored.forms.get(query.name, ""))
    if stored.has_first_forms or (query.name in stored.answered and query.name not in stored.forms):
        kept = next(form for form in query.forms if form.kind not in _LATER)
    candidates = query.forms
    if kept is not None and not (query.backfill and kept.join is not None):  # with BACKFILL it is another query
        # Those that read the rows of windows have nothing else to keep.
        is_free = reads_rows(query, kept) and not is_wanted
        candidates = tuple(filter(partial(reads_rows, query), query.forms)) if is_free else (kept,)
    if len(candidates) == 1:
        return candidates[0]
    prices = prices_of(query, facts, of_join)
    return min(candidates, key=lambda form: prices[form.kind])


def reads_rows(query: Query, form: Form) -> bool:
    """Whether a query is computed from the rows of its windows in this form."""
    operator = operator_of(query.in_form(form))
    return operator is not None and operator.reads_rows


def leaving_queries(queries: Sequence[Query], stored: StoredWindows) -> tuple[Query, ...]:
    """Those that change their form, in the one that they leave."""
    found = []
    for query in queries:
        left = _of_kind(query, stored.leaving.get(query.name, ""))
        # With BACKFILL it is another query, and has no windows yet.
        if left is not None and left.kind != query.form.kind and not query.backfill:
            found.append(query.in_form(left))
    return tuple(found)


def without_their_form(queries: Sequence[Query], stored: StoredWindows) -> tuple[Query, ...]:
    """Those whose open windows nothing computes: they were in a form, or are leaving one, that the queries do not have
    here, and no other one reads the same."""
    kept = ((query, stored.forms.get(query.name, ""), stored.leaving.get(query.name, "")) for query in queries)
    return tuple(query for query, *kinds in kept if any(kind and _of_kind(query, kind) is None for kind in kinds))


def _of_kind(query: Query, kind: str) -> Form | None:
    """The form of this kind; where only Spark computes that, and there is none, another one over the same rows."""
    kinds = (kind, TaskSql.kind) if kind == WindowSql.kind else (kind,)
    return next((form for each in kinds for form in query.forms if form.kind == each), None)


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
    if query.join is None:
        cost += _made_results(query, facts, of_join)
    costs = cost_of(planned_windows([query], StoredWindows(), facts.partitions).rules, facts)
    return cost + costs.total - costs.by_stage.get(RESULTS, 0.0)  # which are the same in every form


def _made_results(query: Query, facts: TickFacts, of_join: JoinPrice) -> float:
    """What it takes to make, from the rows of windows, the results of a join that another form finds one by one."""
    found = next((query.in_form(form) for form in query.forms if form.kind == PairRows.kind), None)
    operator = operator_of(query)
    if found is None or operator is None:
        return 0.0
    _, results = of_join(found)
    each = facts.weights.window_row if operator.needs_spark else facts.weights.result_row
    return in_windows(found, results) * each
