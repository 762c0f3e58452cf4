"""Windows that are SQL over their rows: all rows of the streams are stored, and nothing else is.

Tasks compute those that DuckDB can compute, by the operator `task`; jobs of Spark compute the others, by `sql`. Both
read the same rows, so that a query may change from one to the other between two ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from watersmeet.model import Query
from watersmeet.model.forms import Form, TaskSql, WindowSql
from watersmeet.plan.ruleset import WindowRule
from watersmeet.windows.costs import TickFacts, WindowCosts
from watersmeet.windows.protocol import Planned, StoredWindows

SQL, TASK = "sql", "task"  # the names of the operators


class SqlPlanning:
    name = SQL
    needs_spark = True
    reads_rows = True

    def takes(self, form: Form) -> bool:
        return form.kind == WindowSql.kind

    def in_words(self, form: Form) -> str:
        return "by Spark SQL over the rows of each window"

    def planned(self, queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
        return _planned(self.name, queries)

    def cost(self, rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
        """A job for each window that has rows, and its rows."""
        return _cost("windows by Spark", rules, facts, facts.weights.window_job, facts.weights.window_row)


class TaskPlanning:
    name = TASK
    needs_spark = False
    reads_rows = True

    def takes(self, form: Form) -> bool:
        return form.kind == TaskSql.kind

    def in_words(self, form: Form) -> str:
        return "by DuckDB in a task over the rows of each window"

    def planned(self, queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
        return _planned(self.name, queries)

    def cost(self, rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
        """Each window that has rows, and its rows."""
        return _cost("windows from rows", rules, facts, facts.weights.task_window, facts.weights.task_row)


def form_of_spark(query: Query) -> WindowSql | None:
    """The form in which Spark computes a query, whatever form it has now."""
    return cast("WindowSql | None", query.by_kind.get(WindowSql.kind))


def _planned(operator: str, queries: Sequence[Query]) -> Planned:
    reads = {query.name: tuple((stream, stream) for stream in query.streams) for query in queries}
    rules = [WindowRule(each.definition, operator, reads[each.name], details=(each.form,)) for each in queries]
    return Planned(tuple(rules))


def _cost(stage: str, rules: Sequence[WindowRule], facts: TickFacts, each: float, row: float) -> WindowCosts:
    found = WindowCosts()
    for rule in rules:
        query = rule.query
        lasts = query.grid.range / facts.progress(query)  # ticks
        rows = sum(facts.arrivals(stream) * lasts for _, stream in rule.reads)
        found.add(stage, query.name, facts.windows(query) * (min(1.0, rows) * each + rows * row))
        if not facts.knows(query):
            found.assumed.add(query.name)
    return found
