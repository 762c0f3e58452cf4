"""Forms of queries: the ways in which a query can be computed.

    JoinForm              a join of streams, whose results leave one by one (join.py)

For every window of a windowed query, what the batch query over the rows of the window gives:

    SliceAggregates       one stream, aggregates that combine: a partial aggregate for each slice and key
    FactorizedAggregates  the same over an acyclic equality join: partial aggregates are pushed below the join
    JoinAggregates        the same over the results of a continuous join, each at the event time of its newest member
    PairAggregates        the same over the results of a join, each in the windows that contain all its members
    PairRows              the results of a join themselves, in the same windows
    TaskSql               everything else that is proven: DuckDB, in a task, over the rows of the window
    WindowSql             everything else: Spark SQL over the rows of the window

The four kinds of aggregates end in the same step. The combined partials are a small relation: key i is the column
`k<i>`, partial i the columns that `PartialAggregate.columns` names, and there are `window_start` and `window_end`. The
outputs, HAVING and ORDER BY are expressions over this relation (columns without a row's name); those of PairRows are
expressions over the outputs of its join and the ends of the window, and outputs of a TaskSql or WindowSql are columns
of its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from watersmeet.model.expression import ColumnRef, Expression
from watersmeet.model.join import JoinForm, Output
from watersmeet.model.predicate import KeyPart

START, END = "window_start", "window_end"
FUNCTIONS = ("count", "sum", "min", "max", "moments")


@dataclass(frozen=True)
class PartialAggregate:
    """What is stored for a slice and a key: the part of an aggregate that combines with other parts.

    `type` is that of the stored value: a sum of integers is a decimal(38,0), so that no partial overflows; the last
    step compares it with the type that the query gives. `moments` are the count, mean and sum of squared distances from
    the mean of doubles. NULL arguments count for nothing: a count of none is 0, all others of none are NULL, and
    moments of none are (0, 0, 0). Without an argument rows are counted.
    """

    function: str  # one of FUNCTIONS
    argument: Expression | None
    filter: Expression | None  # rows for which it is not true count for nothing
    type: str
    # Not empty: each combination of these values counts once, if none is NULL. They are keys of a slice store of their
    # own, besides those of the query; `argument`, if there is one, is computed of the only value.
    distinct: tuple[Expression, ...] = ()

    def __post_init__(self) -> None:
        assert self.function in FUNCTIONS, self.function
        assert not self.distinct or self.function in ("count", "sum"), self.function
        assert self.argument is not None or self.function == "count"

    def columns(self, at: int) -> tuple[tuple[str, str], ...]:
        """The columns, with their types, of the partial with this number."""
        if self.function == "moments":
            return (f"p{at}_n", "double"), (f"p{at}_mean", "double"), (f"p{at}_m2", "double")
        return ((f"p{at}", self.type),)


@dataclass(frozen=True)
class SortOrder:
    expression: Expression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class FinalStage:
    """What is done with the combined partials of a window. Outputs are those of the query.

    With a limit (or offset), `order` ends with all outputs, so that the rows that are kept do not depend on chance."""

    having: Expression | None = None
    distinct: bool = False
    order: tuple[SortOrder, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def needs_all_keys(self) -> bool:
        """Whether a window's results are not simply those of its keys one by one."""
        return self.distinct or self.limit is not None or self.offset > 0


@dataclass(frozen=True)
class SliceAggregates:
    """Aggregates of one stream. Without keys a window has one row, if it has rows that pass the filter or not;
    but a window without any row of the stream gives nothing."""

    kind: ClassVar[str] = "slices"
    join: ClassVar[JoinForm | None] = None

    stream: str
    filter: Expression | None
    keys: tuple[Expression, ...]  # over a row of the stream, as all expressions but those of the last step
    partials: tuple[PartialAggregate, ...]
    final: FinalStage = field(default_factory=FinalStage)
    outputs: tuple[Output, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.stream,)

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        """The expressions that are evaluated for the rows that arrive."""
        plain = [partial.argument for partial in self.partials if not partial.distinct]
        distinct = [each for partial in self.partials for each in partial.distinct]
        return _given((self.filter, *self.keys, *plain, *distinct, *(partial.filter for partial in self.partials)))

    @cached_property
    def distinct(self) -> tuple[tuple[Expression, ...], ...]:
        """The combinations of values of which partials count each once."""
        return tuple(dict.fromkeys(partial.distinct for partial in self.partials if partial.distinct))


@dataclass(frozen=True)
class Member:
    """One alias of a factorized join. Its rows join those of `parent`, where all pairs of keys are equal."""

    alias: str
    stream: str
    filter: Expression | None
    parent: int | None  # position of another member, which comes before it; None: this one is the root
    join: tuple[KeyPart, ...] = ()  # over rows of this member
    parent_join: tuple[KeyPart, ...] = ()  # over rows of the parent, in the same order
    keys: tuple[tuple[int, Expression], ...] = ()  # keys of the query that this member has, with their numbers


@dataclass(frozen=True)
class JoinPartial:
    """An aggregate over the join: of the product of its arguments, of which each reads one member.

    A result of the join counts for nothing where a filter is not true or an argument is NULL. min and max have one
    argument; count has none, or arguments that only have to be not NULL."""

    function: str  # count, sum, min, max
    arguments: tuple[tuple[int, Expression], ...]  # with the position of the member; at most one for each
    filters: tuple[tuple[int, Expression], ...]
    type: str

    def columns(self, at: int) -> tuple[tuple[str, str], ...]:
        return ((f"p{at}", self.type),)


@dataclass(frozen=True)
class FactorizedAggregates:
    """Aggregates of a join without its results: partials of each member are multiplied by join key."""

    kind: ClassVar[str] = "factorized"
    join: ClassVar[JoinForm | None] = None

    members: tuple[Member, ...]  # the first is the root, and each comes after its parent
    key_types: tuple[str, ...]
    partials: tuple[JoinPartial, ...]
    final: FinalStage = field(default_factory=FinalStage)
    outputs: tuple[Output, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(member.stream for member in self.members))

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        filters = [member.filter for member in self.members]
        joins = [part.expression for member in self.members for part in (*member.join, *member.parent_join)]
        keys = [key for member in self.members for _, key in member.keys]
        inside = [each for partial in self.partials for _, each in (*partial.arguments, *partial.filters)]
        return _given((*filters, *joins, *keys, *inside))


@dataclass(frozen=True)
class JoinAggregates:
    """Aggregates of a join's results. A result is in the windows that contain its newest member's time."""

    kind: ClassVar[str] = "continuous"
    distinct: ClassVar[tuple[tuple[Expression, ...], ...]] = ()  # no value of a join's results counts only once

    join: JoinForm  # its outputs are the columns that the keys and partials read
    keys: tuple[Expression, ...]  # over a row of these outputs
    partials: tuple[PartialAggregate, ...]
    final: FinalStage = field(default_factory=FinalStage)
    outputs: tuple[Output, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return self.join.streams

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        inside = (each for partial in self.partials for each in (partial.argument, partial.filter))
        return _given((*self.join.over_rows, *self.keys, *inside))


@dataclass(frozen=True)
class PairAggregates(JoinAggregates):
    """Aggregates of a windowed join's results, which are found one by one as their last members arrive.

    A result is in the windows that contain all its members; the windows of the join are as long as those."""

    kind: ClassVar[str] = "pairs"


@dataclass(frozen=True)
class PairRows:
    """The results of a windowed join, which are found one by one and kept until the windows close that contain all
    their members."""

    kind: ClassVar[str] = "pair rows"

    join: JoinForm  # its outputs are what is kept of a result; its windows are as long as those of the query
    outputs: tuple[Output, ...] = ()  # over these outputs, `window_start` and `window_end`

    @property
    def streams(self) -> tuple[str, ...]:
        return self.join.streams

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        return self.join.over_rows


@dataclass(frozen=True)
class View:
    """The rows of a stream in a window, as the SQL over them names them."""

    name: str
    stream: str
    columns: tuple[str, ...]  # those that are read


@dataclass(frozen=True)
class _RowsSql:
    """SQL over the rows of a window, made anew from the checked tree; one text serves every window."""

    join: ClassVar[JoinForm | None] = None

    text: str
    views: tuple[View, ...]
    outputs: tuple[Output, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(view.stream for view in self.views))

    @property
    def over_rows(self) -> tuple[Expression, ...]:
        return ()


@dataclass(frozen=True)
class TaskSql(_RowsSql):
    """SQL of DuckDB. It reads the variables `window_start` and `window_end`, which are microseconds."""

    kind: ClassVar[str] = "task"


@dataclass(frozen=True)
class WindowSql(_RowsSql):
    """Spark SQL. It has the parameters `:window_start` and `:window_end`, which are microseconds, where the query reads
    them. The columns of its result have the names and types of the query's outputs."""

    kind: ClassVar[str] = "batch"


Form = JoinForm | SliceAggregates | FactorizedAggregates | JoinAggregates | PairRows | TaskSql | WindowSql


def _given(expressions: Iterable[Expression | None]) -> tuple[Expression, ...]:
    return tuple(expression for expression in expressions if expression is not None)


def key_column(at: int, declared: str) -> ColumnRef:
    """A key of the query in the relation of the last step."""
    return ColumnRef(f"k{at}", declared)
