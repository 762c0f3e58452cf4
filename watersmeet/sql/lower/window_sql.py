"""Any windowed query as SQL that Spark computes from the rows of a window."""

from __future__ import annotations

from watersmeet.model import ColumnRef, Output
from watersmeet.model.forms import View, WindowSql
from watersmeet.sql.lower.lowering import Lowering
from watersmeet.sql.lower.spark_text import spark_text
from watersmeet.sql.resolve.resolved import Bound, ResolvedQuery, all_nodes, scans


def window_sql(lowering: Lowering, query: ResolvedQuery) -> WindowSql:
    """The query as Spark SQL over one view for each stream, with the columns that it reads."""
    read = {scan.label: scan for scan in scans(query)}
    columns: dict[str, dict[str, None]] = {scan.stream: {} for scan in read.values()}
    for node in all_nodes(query):
        if isinstance(node, Bound) and node.relation in read:
            columns[read[node.relation].stream][node.column] = None
    views = tuple(View(f"rows_of_{stream}", stream, tuple(read)) for stream, read in columns.items())
    text = spark_text(query, {view.stream: view.name for view in views}, lowering.resolver.typing)
    if "${" in text:  # literals have none
        site = lowering.site
        site.fail((0, len(site.text)), "a name with ${ is not supported where Spark computes windows", hint="rename it")
    outputs = tuple(Output(each.name, each.type, ColumnRef(each.name, each.type)) for each in query.outputs)
    return WindowSql(text, views, outputs)
