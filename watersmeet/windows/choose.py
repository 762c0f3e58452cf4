"""In which form each windowed query is computed: the one in which it is computed already, or the cheapest one.

A form is kept, because what its windows need is in the stores of its operator: with another one, the windows that are
open would be lost. The plan remembers forms, and so does the home (`slices.json`); a home without them has queries of
one form each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.model import Query
from watersmeet.model.forms import Form
from watersmeet.windows.costs import TickFacts
from watersmeet.windows.protocol import StoredWindows
from watersmeet.windows.table import cost_of, planned_windows

Forms = Mapping[str, str]  # the kind of the form, by the name of a query that has several


def with_chosen_forms(queries: Sequence[Query], kept: Forms, facts: TickFacts) -> tuple[Query, ...]:
    """The queries, each in the form that is kept for it or in its cheapest one; of equal ones, the first."""
    return tuple(query.in_form(_chosen(query, kept.get(query.name), facts)) for query in queries)


def _chosen(query: Query, kept: str | None, facts: TickFacts) -> Form:
    if len(query.forms) <= 1:
        return query.form
    known = next((form for form in query.forms if form.kind == kept), None)
    return known or min(query.forms, key=lambda form: _price(query.in_form(form), facts))


def _price(query: Query, facts: TickFacts) -> float:
    """Of the windows of a query alone."""
    return cost_of(planned_windows([query], StoredWindows(), facts.partitions).rules, facts).total
