"""The Ruleset: the plan as data, which every task of a tick executes.

A partial result has *positions* 0, 1, …: position 0 is the row that just arrived, each step adds the row of one
store. A row of a stream's store is one member of a result; a row of a materialized store is several, whose columns
carry the relation's name in front (`r.price`).

Queries that join the same streams in the same way, whatever their filters, windows and outputs, form a *group*. A
partial result carries for each group below it a word with one bit per query, its query set: a bit is 1 while every row
so far passes that query's filters. So a step is shared by all queries below it, works with the widest of their windows,
and leaves out rows that no query needs together. Where that window is wider than a query's own, `Emit` has the latter.

Phases: a tick runs the starts of phase 1, then those of phase 2, … A start that probes rows which this very tick
adds to a materialized store is in a later phase than the starts that make them. Starts of phase 0 begin with the rows
that are stored already: they fill a materialized store that is new, or backfill a query that is new.

Leaves: rows of a query's other aliases need no partner in its leaf, or only need to have one. A path of such a query
ends in a *leaf check*, a step that adds no row: it looks for partners and leaves of each query set the queries that
want the partial result. A row without a partner leaves when none can come any more: when the leaf's watermark passes
its deadline. Until then it is not kept anywhere but in its store: starts with a `due` begin with the stored rows
whose deadline the watermark of that stream passes in this tick.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from watersmeet.model import Column, ColumnRef, Expression, KeyPart, Output, Query, Sink, SparkCall, Theta
from watersmeet.model.identity import spelled_as
from watersmeet.model.limits import Limits
from watersmeet.store.derived import Block, Derived
from watersmeet.store.placement import Placement, Store

if TYPE_CHECKING:
    from watersmeet.store.bucket import Bucket

UNBOUNDED = 1 << 61  # longer than the range of event times, and still safe to add to one

Key = tuple[KeyPart, ...]
Lookup = tuple[int, KeyPart]  # the key part of the row at a position
Member = tuple[int, str]  # position, and what stands in front of the member's columns there ("" or "r.")
Check = tuple[tuple[int, KeyPart], tuple[int, KeyPart]]  # two members by number, and their keys that must be equal

MISSING = -1  # as the position of a member: there is no row; its stream stands in place of the prefix

Bound = tuple[Lookup, float | int]  # a key of an earlier row, and what is added to it


def kept_name(prefix: str, part: KeyPart) -> str:
    """The column of a materialized store that holds a key of a member."""
    return prefix + part.name


def kept_filter(prefix: str, wanted: Expression) -> ColumnRef:
    """The column of a materialized store that says whether a member passes a filter."""
    return ColumnRef(f"{prefix}filter {wanted.text}", "boolean")


@dataclass(frozen=True)
class Emit:
    """Complete results of a group of queries."""

    group: str
    queries: tuple[str, ...]  # bit i of a query set is queries[i]
    members: tuple[Member, ...]  # by relation, in the order of their names
    windows: tuple[tuple[int, ...], ...] | None  # each query's own by member, where the shared steps used wider ones
    verify: tuple[Check, ...]  # equalities whose codes do not prove them


@dataclass(frozen=True)
class Materialize:
    """A row of a materialized store. In a word of its own the group has one bit: some reader wants the row."""

    group: str
    store: str
    members: tuple[Member, ...]  # by relation of the store
    windows: tuple[int, ...] | None  # the store's own by member, where the shared steps used wider ones
    verify: tuple[Check, ...]


@dataclass(frozen=True)
class FilterNeed:
    """What a group asks of the rows of one store: the filters of its queries, or an empty block for nothing."""

    group: str
    block: Block


@dataclass(frozen=True)
class Range:
    """Stored rows are found by a key that is not below any of `lows` and not above any of `highs`."""

    part: KeyPart
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]


@dataclass(frozen=True)
class Test:
    """A predicate over two rows, of which the probed store's is one."""

    theta: Theta
    left: Member
    right: Member


@dataclass(frozen=True)
class LeafCheck:
    """Which partial results a leaf check lets pass: with a partner in the leaf, or without one.

    Whether there is a partner is decided by the windows of the queries themselves."""

    wants_partner: bool
    members: tuple[Member, ...]  # the preserved ones
    windows: tuple[int, ...]  # of these
    verify: tuple[tuple[Member, KeyPart, KeyPart], ...]  # equalities with the leaf whose codes do not prove them
    decided: str = ""  # only where no partner can come: the watermark of this stream has passed the deadline,
    before: bool = False  # even before this tick,
    behind: int | None = None  # and the newest member is at most so far behind the watermark
    first: int | None = None  # only where this member gives the deadline, and no earlier one does
    precedes: bool = False  # position 0 is a partner: only where no other one precedes it


@dataclass(frozen=True)
class Step:
    """Probe one store with the partial results that reach this step: by a key, or else a range, or else all rows."""

    id: int
    store: str
    key: Key
    sources: tuple[Lookup, ...]  # where the value for each part of the key comes from
    sees: tuple[str, ...]  # rows of the same tick are probed if they were made from one of these relations
    window: int
    groups: tuple[FilterNeed, ...]  # of all ends at and below this step
    carry: tuple[Lookup, ...]  # codes that steps below need
    emits: tuple[Emit, ...]
    materialized: tuple[Materialize, ...]
    steps: tuple[Step, ...]
    range: Range | None = None  # only without a key
    tests: tuple[Test, ...] = ()  # what the rows found must still satisfy
    leaf: LeafCheck | None = None  # it adds no row, but checks those that are there

    @property
    def looked_up(self) -> tuple[Lookup, ...]:
        """The codes of earlier rows that the probe needs."""
        if self.range is None:
            return self.sources
        return tuple(lookup for lookup, _ in (*self.range.lows, *self.range.highs))

    @property
    def ends(self) -> tuple[Emit | Materialize, ...]:
        return (*self.emits, *self.materialized)


@dataclass(frozen=True)
class Start:
    """What happens to the rows of a stream that arrive in a tick, as one of the stream's relations."""

    relation: str
    stream: str
    phase: int
    window: int
    groups: tuple[FilterNeed, ...]
    carry: tuple[Lookup, ...]
    emits: tuple[Emit, ...]
    steps: tuple[Step, ...]
    backfills: str = ""  # in phase 0, the query whose results among stored rows it finds
    due: str = ""  # it begins with stored rows whose deadline the watermark of this stream passes
    of: str = ""  # the group whose leaf it is for, where it is no part of a probe tree
    by_key: Lookup | None = None  # rows of a leaf that are equal in this stand for each other: a key proves all


@spelled_as("KeptColumn", "name", "member", "kind", "source", "type")
@dataclass(frozen=True)
class KeptColumn:
    """A column of a materialized store and the member's column, key, filter or event time that it holds."""

    name: str
    member: int
    kind: str  # column, key, filter, time
    source: str | Expression  # the name of the column, or the expression of the key or filter
    type: str


@dataclass(frozen=True)
class _ProbedStore:
    name: str
    columns: tuple[Column, ...]
    keys: tuple[Key, ...]
    blocks: tuple[Block, ...]  # what groups ask of its rows
    placement: Placement
    sorted_by: tuple[KeyPart, ...] = ()  # the keys by which ranges are looked up
    scanned: tuple[Key, ...] = ()  # the keys by which it is probed so seldom that it has no index
    computed: tuple[SparkCall, ...] = ()  # columns that Spark computes

    is_probed: ClassVar[bool] = True

    @property
    def derived(self) -> Derived:
        return Derived(self.keys, self.blocks, self.sorted_by, tuple(column.name for column in self.computed))

    def merged(self, buckets: Iterable[Bucket], horizon: int) -> Bucket | None:
        from watersmeet.store.merge import living_rows  # compiled loops, which a plan alone does not need

        return living_rows(buckets, self.derived, horizon)


@dataclass(frozen=True)
class StreamStore(_ProbedStore):
    """The rows of a stream, as they are."""

    is_materialized: ClassVar[bool] = False
    members: ClassVar[tuple[tuple[str, str], ...]] = ()  # it is not made of others
    kept: ClassVar[tuple[KeptColumn, ...]] = ()

    time: str = ""  # the event-time column
    only_wanted: bool = False  # a row in which no block leaves a bit is not kept


@dataclass(frozen=True)
class JoinStore(_ProbedStore):
    """Materialized results of a subquery, put together from the rows of its members."""

    is_materialized: ClassVar[bool] = True

    members: tuple[tuple[str, str], ...] = ()  # (relation, stream)
    kept: tuple[KeptColumn, ...] = ()
    outside: tuple[str, ...] = ()  # streams whose rows may still join a row of it


ProbedStore = StreamStore | JoinStore


@dataclass(frozen=True)
class QueryOutput:
    query: str
    aliases: tuple[str, ...]
    members: tuple[int, ...]  # for each alias the number of its relation among the members of an Emit
    outputs: tuple[Output, ...]
    sink: Sink

    @cached_property
    def content(self) -> str:
        """Equal for queries of a group whose rows, of the same members, are equal but for the names of columns."""
        member_of = dict(zip(self.aliases, self.members, strict=True))
        return "; ".join(
            f"{each.type} {each.expression.spelled(lambda column: f'{member_of[column.row]}.{column.name}')}"
            for each in self.outputs
        )


@dataclass(frozen=True)
class WindowRule:
    """What a tick knows of a windowed query."""

    query: Query  # its definition
    operator: str  # who computes its windows, by name
    reads: tuple[tuple[str, str], ...]  # stores with their streams: which windows are open, and what is kept, follows
    is_filled: bool = False  # for BACKFILL its new stores are filled with stored rows
    is_whole: bool = False  # the keys of a window cannot be divided among partitions
    details: tuple[Any, ...] = ()  # what only the operator knows
    leaves: bool = False  # the query is to be computed in another form, by the windows that this rule cannot answer


@dataclass(frozen=True)
class Ruleset:
    version: str
    partitions: int
    stores: tuple[Store, ...]
    starts: tuple[Start, ...]
    results: tuple[QueryOutput, ...]
    limits: Limits = field(default_factory=Limits)
    windows: tuple[WindowRule, ...] = ()
    delays: bool = False  # few results of a query may wait to become a file (option result_delay)
    durable: bool = False  # files are on the disk before a task reports them (option durability)

    @cached_property
    def window(self) -> dict[str, WindowRule]:
        """The rules of windowed queries, by name."""
        return {rule.query.name: rule for rule in self.windows if not rule.leaves}

    @cached_property
    def leaving(self) -> dict[str, WindowRule]:
        """By query that changes its form, the rule for the windows before the first one of its new form."""
        return {rule.query.name: rule for rule in self.windows if rule.leaves}

    @cached_property
    def probed(self) -> tuple[ProbedStore, ...]:
        """The stores that probes read; the others are those of windows."""
        return tuple(cast(ProbedStore, store) for store in self.stores if store.is_probed)

    @cached_property
    def stream_stores(self) -> dict[str, StreamStore]:
        return {store.name: cast(StreamStore, store) for store in self.probed if not store.is_materialized}

    @cached_property
    def join_stores(self) -> dict[str, JoinStore]:
        return {store.name: cast(JoinStore, store) for store in self.probed if store.is_materialized}

    @cached_property
    def window_stores(self) -> dict[str, Store]:
        """The stores that only windows are made of."""
        return {store.name: store for store in self.stores if not store.is_probed}

    @cached_property
    def intakes(self) -> dict[str, dict[str, set[str]]]:
        """By stream, and by operator of windows: the stores that each of its rows goes into."""
        found: dict[str, dict[str, set[str]]] = {}
        for rule in self.windows:
            for store, stream in rule.reads if rule.query.join is None else ():
                if store != stream:
                    found.setdefault(stream, {}).setdefault(rule.operator, set()).add(store)
        return found

    def store(self, name: str) -> ProbedStore:
        return self.stream_stores.get(name) or self.join_stores[name]

    @property
    def materialized(self) -> tuple[str, ...]:
        return tuple(self.join_stores)

    @property
    def by_spark(self) -> tuple[StreamStore, ...]:
        """The stores with columns that Spark computes."""
        return tuple(store for store in self.stream_stores.values() if store.computed)

    def phases(self) -> list[int]:
        return sorted({start.phase for start in self.starts if start.phase > 0})

    def all_steps(self) -> list[Step]:
        """Every step, parents before children."""
        return [step for start in self.starts for step in all_steps(start.steps)]

    def queries_of(self, step: Step) -> set[str]:
        """The queries whose results come through a step, also those that read a materialized store that it fills."""
        below = all_steps((step,))
        found = {query for each in below for emit in each.emits for query in emit.queries}
        kept = {keep.store for each in below for keep in each.materialized}
        readers = [reader for reader in self.all_steps() if reader.store in kept]
        return found.union(*(self.queries_of(reader) for reader in readers))

    def registered(self) -> frozenset[str]:
        """The names of the registered predicates that some step calls."""
        functions = [test.theta.function for step in self.all_steps() for test in step.tests]
        return frozenset(function.name for function in functions if function is not None)

    def depth(self, phase: int) -> int:
        """The longest path of steps: the number of stages of a phase with several partitions."""

        def below(steps: tuple[Step, ...]) -> int:  # a leaf check happens where its partial results are
            return max((1 + below(step.steps) for step in steps if step.leaf is None), default=0)

        return max((below(start.steps) for start in self.starts if start.phase == phase), default=0)

    def validate(self) -> None:
        """Check what tasks rely on."""
        stores = {store.name: store for store in self.probed}
        named = [(start.relation, start.phase, start.due, start.of) for start in self.starts if start.phase]
        assert len(set(named)) == len(named), "two starts for one relation in one phase"
        ids = [step.id for step in self.all_steps()]
        assert len(set(ids)) == len(ids), "two steps with one id"
        kept_in: dict[str, int] = {}

        def check(steps: tuple[Step, ...], bound: int, carried: set[Lookup], phase: int, once: bool) -> None:
            for step in steps:
                rule = stores[step.store]
                assert once or not step.key or step.key in rule.keys + rule.scanned, f"no index for step {step.id}"
                assert not (step.key and step.range)
                assert len(step.key) == len(step.sources)
                for source in step.looked_up:
                    assert source[0] < bound and source in carried, f"step {step.id} needs {source}"
                for end in step.ends:
                    used = {position for position, _ in end.members} - {MISSING}
                    rows = range(bound + 1) if step.leaf is None else range(bound)
                    assert used == set(rows), f"{end} does not use every row"
                for keep in step.materialized:
                    kept_in[keep.store] = max(phase, kept_in.get(keep.store, 0))
                kept = set(step.carry)
                assert all(position <= bound for position, _ in kept)
                check(step.steps, bound + 1, kept, phase, once)

        for start in self.starts:
            check(start.steps, 1, set(start.carry), start.phase, once=not start.phase)
        for start in self.starts:
            for step in all_steps(start.steps):
                if step.sees and stores[step.store].is_materialized:
                    assert kept_in[step.store] < start.phase, f"step {step.id} probes rows that are not there yet"


def all_steps(steps: tuple[Step, ...]) -> list[Step]:
    """These steps and all below them, parents before children."""
    return [found for step in steps for found in (step, *all_steps(step.steps))]
