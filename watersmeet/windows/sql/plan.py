"""Windows that are SQL over their rows: all rows of the streams are stored, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model import Query
from watersmeet.model.forms import Form, WindowSql
from watersmeet.plan.ruleset import WindowRule
from watersmeet.windows.costs import TickFacts, WindowCosts
from watersmeet.windows.protocol import Planned, StoredWindows

SQL = "sql"  # the name of the operator


class SqlPlanning:
    name = SQL
    needs_spark = True
    reads_rows = True

    def takes(self, form: Form) -> bool:
        return form.kind == WindowSql.kind

    def in_words(self, form: Form) -> str:
        return "by Spark SQL over the rows of each window"

    def planned(self, queries: Sequence[Query], stored: StoredWindows, partitions: int) -> Planned:
        reads = {query.name: tuple((stream, stream) for stream in query.streams) for query in queries}
        rules = [WindowRule(each.definition, self.name, reads[each.name], details=(each.form,)) for each in queries]
        return Planned(tuple(rules))

    def cost(self, rules: Sequence[WindowRule], facts: TickFacts) -> WindowCosts:
        """A job for each window that has rows, and its rows."""
        found = WindowCosts()
        for rule in rules:
            query, weights = rule.query, facts.weights
            lasts = query.grid.range / facts.progress(query)  # ticks
            rows = sum(facts.arrivals(stream) * lasts for _, stream in rule.reads)
            window = min(1.0, rows) * weights.window_job + rows * weights.window_row
            found.add("windows by Spark", query.name, facts.windows(query) * window)
            if not facts.knows(query):
                found.assumed.add(query.name)
        return found
