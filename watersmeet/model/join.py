"""A join of streams: aliases with windows and filters, equalities and other predicates between them, its outputs.

A filter or key is an expression over the only row that it reads ("price" > 10), so that queries which use other alias
names still have equal, shareable ones; in an output each column says of which alias it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from watersmeet.errors import ModelError
from watersmeet.model.expression import Expression
from watersmeet.model.identity import spelled_as
from watersmeet.model.predicate import Equality, Predicate
from watersmeet.model.spark_call import SparkCall

LEFT_JOIN, SEMI_JOIN, ANTI_JOIN = "left", "semi", "anti"


@spelled_as("Alias", "name", "stream", "window", "filter")
@dataclass(frozen=True)
class Alias:
    """One use of a stream in a join, with its window and filter."""

    name: str
    stream: str
    window: int | None  # microseconds; None is UNBOUNDED
    filter: Expression | None = None


@spelled_as("Output", "name", "type", "expression")
@dataclass(frozen=True)
class Output:
    """One result column: a member's column as it is, or something computed. Rows are named by aliases."""

    name: str
    type: str
    expression: Expression


@dataclass(frozen=True)
class Leaf:
    """What the last alias of a query is to the others, where it is not simply joined: see LEFT, SEMI and ANTI joins.

    Its own filter and what joins it to the others decide whether a row has a partner. The rest is about the results
    of a LEFT JOIN, from its WHERE."""

    kind: str
    filter: Expression | None = None  # of the partner,
    equalities: tuple[Equality, ...] = ()  # and between it and other aliases
    predicates: tuple[Predicate, ...] = ()
    missing: tuple[tuple[str, Expression], ...] = ()  # filters by alias, of results without a partner


@dataclass(frozen=True)
class JoinForm:
    """A query as a join: a result leaves when the last of its rows has arrived."""

    kind: ClassVar[str] = "join"

    aliases: tuple[Alias, ...]
    equalities: tuple[Equality, ...]
    outputs: tuple[Output, ...]
    predicates: tuple[Predicate, ...] = ()  # between two aliases, but no equalities
    leaf: Leaf | None = None  # None: all aliases are joined

    def check(self, query: str) -> None:
        names = [alias.name for alias in self.aliases]
        if len(set(names)) != len(names):
            raise ModelError(f"query {query} uses an alias twice: {', '.join(sorted(names))}")
        for equality in self.equalities:
            if equality.left == equality.right:
                raise ModelError(f"query {query}: an equality within one alias is a filter, not a join")
        unreached = set(names) - self.reached_from(names[0])
        if unreached:
            raise ModelError(
                f"query {query}: nothing joins {', '.join(sorted(unreached))} to {names[0]}",
                hint="add a predicate between them, or write CROSS JOIN",
            )

    @property
    def join(self) -> JoinForm:
        return self

    @property
    def preserved(self) -> tuple[Alias, ...]:
        """The aliases whose rows are in every result."""
        return self.aliases if self.leaf is None else self.aliases[:-1]

    @cached_property
    def by_name(self) -> dict[str, Alias]:
        return {alias.name: alias for alias in self.aliases}

    @property
    def streams(self) -> tuple[str, ...]:
        """Each stream that it reads, once."""
        return tuple(dict.fromkeys(alias.stream for alias in self.aliases))

    @property
    def title(self) -> str:
        """What the join reads, as users see it."""
        named = [f"{alias.stream} {alias.name}" for alias in self.aliases]
        if self.leaf is None:
            return " ⋈ ".join(named)
        return f"{' ⋈ '.join(named[:-1])} {self.leaf.kind.upper()} JOIN {named[-1]}"

    @cached_property
    def spark_columns(self) -> dict[str, tuple[SparkCall, ...]]:
        """For each stream the columns that Spark computes for this join."""
        found: dict[str, dict[str, SparkCall]] = {}
        for alias, expression in self._expressions():
            for column in expression.columns:
                if isinstance(column, SparkCall):
                    stream = self.by_name[alias or column.row].stream
                    found.setdefault(stream, {})[column.name] = replace(column, row="")
        return {stream: tuple(columns[name] for name in sorted(columns)) for stream, columns in found.items()}

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        """The expressions that are evaluated for the rows that arrive."""
        return tuple(alias.filter for alias in self.aliases if alias.filter is not None)

    def _expressions(self) -> Iterator[tuple[str, Expression]]:
        """All expressions, each with the alias that it reads; outputs name the aliases themselves."""
        for alias in self.aliases:
            if alias.filter is not None:
                yield alias.name, alias.filter
        if self.leaf is not None:
            yield from self.leaf.missing
            if self.leaf.filter is not None:
                yield self.aliases[-1].name, self.leaf.filter
        for equality in (*self.equalities, *(self.leaf.equalities if self.leaf else ())):
            yield equality.left, equality.left_key.expression
            yield equality.right, equality.right_key.expression
        for predicate in (*self.predicates, *(self.leaf.predicates if self.leaf else ())):
            yield from ((predicate.left, part.expression) for part in predicate.theta.left)
            yield from ((predicate.right, part.expression) for part in predicate.theta.right)
        yield from (("", output.expression) for output in self.outputs)

    def reached_from(self, start: str) -> set[str]:
        """The aliases connected to `start` by equalities and other predicates."""
        reached, frontier = {start}, [start]
        while frontier:
            here = frontier.pop()
            joins: tuple[Equality | Predicate, ...] = (*self.equalities, *self.predicates)
            for join in joins:
                if join.touches(here) and join.other(here) not in reached:
                    reached.add(join.other(here))
                    frontier.append(join.other(here))
        return reached
