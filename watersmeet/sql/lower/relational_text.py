"""Resolved queries as text, whoever computes them: what the dialects of Spark and DuckDB have in common.

A LIMIT decides ties by all outputs, so that the result depends on the rows alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from watersmeet.model.forms import View
from watersmeet.sql.resolve.resolved import (
    Bound,
    Nested,
    OutColumn,
    ResolvedQuery,
    ResolvedSelect,
    ResolvedSetOperation,
    ResolvedSource,
    Scan,
    Subselect,
    all_nodes,
    scans,
)
from watersmeet.sql.tree import Aggregate, Over, Scalar, SortKey, bare

Named = Sequence[tuple[str, Scalar]]


def views_of(query: ResolvedQuery) -> tuple[View, ...]:
    """One view for each stream, with the columns that the query reads."""
    read = {scan.label: scan for scan in scans(query)}
    columns: dict[str, dict[str, None]] = {scan.stream: {} for scan in read.values()}
    for node in all_nodes(query):
        if isinstance(node, Bound) and node.relation in read:
            columns[read[node.relation].stream][node.column] = None
    return tuple(View(f"rows_of_{stream}", stream, tuple(names)) for stream, names in columns.items())


def is_constant(node: Scalar) -> bool:
    """Whether it is the same for all rows of a window."""
    return not any(isinstance(each, Bound | Nested | Aggregate | Over) for each in node.walk())


def direction(text: str, order: SortKey) -> str:
    return f"{text} {'DESC' if order.descending else 'ASC'} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


class RelationalText(ABC):
    """Writes one query. A dialect says how it writes names, scalars and a SELECT."""

    joins: ClassVar[Mapping[str, str]]

    def __init__(self, views: Sequence[View]) -> None:
        self._views = {view.stream: view.name for view in views}

    @abstractmethod
    def quoted(self, name: str) -> str: ...

    @abstractmethod
    def value(self, node: Scalar) -> str: ...

    @abstractmethod
    def condition(self, node: Scalar) -> str: ...

    @abstractmethod
    def select(self, query: ResolvedSelect, more: Named = ()) -> str:
        """Without ORDER BY and LIMIT, but with more columns."""

    def tie(self, output: OutColumn) -> str:
        """What rows that tie are ordered by."""
        return self.quoted(output.label)

    def side(self, query: ResolvedQuery, operation: ResolvedSetOperation) -> str:
        """One side of a set operation, whose columns have at least the names of its left side."""
        return self.query(query)

    def query(self, query: ResolvedQuery) -> str:
        if query.limit is None and not query.offset:
            return self._plain(query)
        prefix = "s"
        while any(output.label.lower().startswith(prefix) for output in query.outputs):
            prefix += "_"
        names = [f"{prefix}{at}" for at in range(len(query.order))]
        shown = ", ".join(self.quoted(output.label) for output in query.outputs)
        if isinstance(query, ResolvedSelect) and not query.distinct:
            inner = self.select(query, [(name, each.value) for name, each in zip(names, query.order, strict=True)])
        else:  # what it is ordered by is a matter of its outputs
            pairs = zip(names, query.order, strict=True)
            sorting = "".join(f", {self._of_outputs(query, key.value)} AS {self.quoted(name)}" for name, key in pairs)
            inner = f"SELECT {shown}{sorting} FROM ({self._plain(query)})"
        order = [direction(self.quoted(name), each) for name, each in zip(names, query.order, strict=True)]
        order += [self.tie(output) for output in query.outputs]
        limit = f" LIMIT {query.limit}" if query.limit is not None else ""
        offset = f" OFFSET {query.offset}" if query.offset else ""
        return f"SELECT {shown} FROM ({inner}) ORDER BY {', '.join(order)}{limit}{offset}"

    def _of_outputs(self, query: ResolvedQuery, value: Scalar) -> str:
        if isinstance(query, ResolvedSelect):
            place = [bare(known) for known in query.values].index(bare(value))
            return self.quoted(query.outputs[place].label)
        return self.value(value)

    def _plain(self, query: ResolvedQuery) -> str:
        """Without ORDER BY and LIMIT."""
        if isinstance(query, ResolvedSelect):
            return self.select(query)
        # The names of outputs are those of the left side.
        left, right = self.side(query.left, query), self.side(query.right, query)
        listed = ", ".join(
            f"{self.quoted(one.label)} AS {self.quoted(output.label)}"
            for one, output in zip(query.left.outputs, query.outputs, strict=True)
        )
        return f"SELECT {listed} FROM (({left}) {query.operator} ({right}))"

    def source(self, source: ResolvedSource) -> str:
        if isinstance(source, Scan):
            return f"{self.quoted(self._views[source.stream])} AS {self.quoted(source.label)}"
        if isinstance(source, Subselect):
            return f"({self.query(source.query)}) AS {self.quoted(source.label)}"
        text = f"({self.source(source.left)} {self.joins[source.kind]} {self.source(source.right)}"
        return f"{text} ON {self.condition(source.on)})" if source.on is not None else f"{text})"
