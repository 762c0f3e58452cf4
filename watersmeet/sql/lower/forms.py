"""The form of a resolved query: the fastest that it fits, and why it fits no faster one."""

from __future__ import annotations

from watersmeet.model.forms import Form
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.sql.lower.continuous import continuous_join
from watersmeet.sql.lower.factors import factorized_aggregates
from watersmeet.sql.lower.flatten import flattened
from watersmeet.sql.lower.join_aggregates import join_aggregates
from watersmeet.sql.lower.lowering import DoesNotFit, Lowering
from watersmeet.sql.lower.slices import slice_aggregates
from watersmeet.sql.lower.sliding_window import window_of_results, window_of_rows
from watersmeet.sql.lower.window_sql import window_sql
from watersmeet.sql.resolve.resolved import ResolvedQuery, ResolvedSelect, Scan
from watersmeet.sql.rules import Kind


def lowered(lowering: Lowering, kind: Kind, query: ResolvedQuery) -> tuple[Form, SlidingWindow | None, str]:
    """The form, the windows of a windowed query, and a sentence that says why it has no faster form."""
    if kind is Kind.WINDOWED:
        window = window_of_rows(lowering, query)
        form, reason = _of_windows(lowering, query)
        return form, window, reason
    join = flattened(lowering.site, query)
    if kind is Kind.CONTINUOUS:
        return continuous_join(lowering, join), None, ""
    window = window_of_results(lowering)
    reason = "It aggregates the results of a continuous join, which are found first."
    return join_aggregates(lowering, join), window, reason


def _of_windows(lowering: Lowering, query: ResolvedQuery) -> tuple[Form, str]:
    try:
        if not isinstance(query, ResolvedSelect):
            raise DoesNotFit(f"it has {query.operator}")
        if isinstance(query.source, Scan):
            return slice_aggregates(lowering, query), ""
        factorized = factorized_aggregates(lowering, query)
        count = len(factorized.members)
        return factorized, f"It joins {count} aliases, so partial aggregates are kept by join key as well."
    except DoesNotFit as problem:
        return window_sql(lowering, query), f"Spark computes each window from its rows, because {problem}."
