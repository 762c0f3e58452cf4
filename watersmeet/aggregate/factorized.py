"""Aggregates over an acyclic join without the join: messages go up the tree, from the leaves to the root.

A member of the join has its partials by window, join keys and group keys. Its message to its parent is a relation with
one row for each window, key of the join with the parent, and combination of group keys below. It has for each aggregate
what the rows below contribute:

    count, sum   the sum over joined rows of the product of their factors: of an argument the sum, else the count
    min, max     the extreme of the member that has the argument, where all others have rows that count

A message is made of a member's partials joined with the messages of its children: factors are multiplied, and then
added by key. So the work is linear in partials and messages; no result of the join is ever made. DuckDB joins and adds,
for all windows of all queries with the same body at once.

Whole numbers are BIGINTs where it is sure that none overflows, else HUGEINTs. If one of those overflows, the aggregates
that it is part of are NULL, and no others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.grouping import fixed_width_words
from watersmeet.aggregate.reading import Reading
from watersmeet.aggregate.slice_store import Part
from watersmeet.aggregate.values import of_words, partial_columns
from watersmeet.model.expression import Expression
from watersmeet.model.types import arrow_type
from watersmeet.model.windowed import Factorized, JoinPartial, Partial
from watersmeet.store.evaluate import run
from watersmeet.store.kernels import I64

WINDOW = "w"
_WORD = "18446744073709551616::HUGEINT"  # 2^64
_SAFE = 2.0**62


def member_keys(body: Factorized, at: int) -> tuple[Expression, ...]:
    """By what the rows of a member are grouped: all keys of joins, and the group keys that it has."""
    member = body.members[at]
    up = [part.expression for part in member.join]
    down = [part.expression for child in body.members if child.parent == at for part in child.parent_join]
    found = dict.fromkeys((*up, *down, *(key for _, key in member.keys)))
    return tuple(sorted(found, key=lambda key: (key.text, key.type)))


def member_partials(body: Factorized, at: int) -> tuple[Partial, ...]:
    """What is needed of the rows of a member for all aggregates."""
    found: dict[Partial, None] = {}
    for partial in body.partials:
        for part in (_counted(partial, at), _factor(partial, at)):
            found.setdefault(_as_partial(part))
    return tuple(found)


def _argument(partial: JoinPartial, at: int) -> Expression | None:
    return next((argument for position, argument in partial.arguments if position == at), None)


def _filter(partial: JoinPartial, at: int) -> Expression | None:
    return next((condition for position, condition in partial.filters if position == at), None)


def _counted(partial: JoinPartial, at: int) -> Part:
    """How many rows of a member count for an aggregate."""
    return Part("count", _argument(partial, at), _filter(partial, at))


def _factor(partial: JoinPartial, at: int) -> Part:
    """What a member contributes to an aggregate."""
    argument = _argument(partial, at)
    return Part("count" if argument is None else partial.function, argument, _filter(partial, at))


def _as_partial(part: Part) -> Partial:
    if part.function == "count":
        kind = "bigint"
    elif part.function == "sum":
        assert part.argument is not None
        kind = f"decimal(38,{scale_of(part.argument.type)})" if part.digits else "double"
    else:
        assert part.argument is not None
        kind = part.argument.type
    return Partial(part.function, part.argument, part.filter, kind)


def scale_of(declared: str) -> int:
    kind = arrow_type(declared)
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


@dataclass(frozen=True)
class _Quantity:
    """A column of a message: the factors of the members below, by position; of an extreme, one is a min or max."""

    factors: tuple[tuple[int, Part], ...]

    @cached_property
    def extreme(self) -> str:
        return next((part.function for _, part in self.factors if part.function in ("min", "max")), "")

    @cached_property
    def is_double(self) -> bool:
        return any(part.function == "sum" and not part.digits for _, part in self.factors)

    def below(self, members: frozenset[int]) -> _Quantity:
        return _Quantity(tuple(factor for factor in self.factors if factor[0] in members))

    @cached_property
    def counts(self) -> _Quantity:
        """How many joined rows count."""
        return _Quantity(tuple((at, part if part.function == "count" else part.counted) for at, part in self.factors))


def joined(
    body: Factorized, readings: Sequence[Reading], members: Sequence[tuple[pa.RecordBatch, I64]]
) -> tuple[pa.RecordBatch, I64]:
    """The aggregates of the join in each window: the columns of keys and partials that the last step reads, and the
    windows, in order. `members` has for each member the rows of its store, and their windows."""
    message = _Messages(body, readings)
    tables = {f"m{at}": message.table(at, *given) for at, given in enumerate(members)}
    if not message.overflows:
        try:
            return message.columns(run(tables, message.text(careful=False)))
        except duckdb.OutOfRangeException:
            pass
    return message.columns(run(tables, message.text(careful=True)))


def with_empty_windows(body: Factorized, rows: pa.RecordBatch, windows: I64, count: int) -> tuple[pa.RecordBatch, I64]:
    """The one row of each window of a join without keys, also of windows from 0 to `count` in which nothing joins."""
    places = np.full(count, -1, np.int64)
    places[windows] = np.arange(len(windows))
    filled = []
    for partial, column in zip(body.partials, rows.columns, strict=True):
        found = column.take(pa.array(np.maximum(places, 0), mask=places < 0))
        filled.append(pc.if_else(pa.array(places < 0), 0, found) if partial.function == "count" else found)
    return pa.RecordBatch.from_arrays(filled, names=rows.schema.names), np.arange(count)


class _Messages:
    def __init__(self, body: Factorized, readings: Sequence[Reading]) -> None:
        self.body = body
        self.readings = readings
        self.overflows = False  # of partials that no HUGEINT holds
        self._totals: list[dict[str, float]] = []  # by member and column, the sum of the sizes of its numbers
        self.positions = range(len(body.members))
        self.children = {
            at: [child for child, member in enumerate(body.members) if member.parent == at] for at in self.positions
        }
        self.below: dict[int, frozenset[int]] = {}
        for at in reversed(self.positions):
            self.below[at] = frozenset((at,)).union(*(self.below[child] for child in self.children[at]))
        self.wanted = [_Quantity(tuple((at, _factor(each, at)) for at in self.positions)) for each in body.partials]
        self.counted = [_Quantity(tuple((at, _counted(each, at)) for at in self.positions)) for each in body.partials]
        self._partials = [member_partials(body, at) for at in self.positions]
        self._names: dict[_Quantity, str] = {}

    def name(self, quantity: _Quantity) -> str:
        return self._names.setdefault(quantity, f"q{len(self._names)}")

    def table(self, at: int, rows: pa.RecordBatch, windows: I64) -> pa.Table:
        """The partials of a member, as DuckDB gets them: sums without their scale, as whole numbers."""
        reading = self.readings[at]
        columns = {WINDOW: pa.array(windows), **{name: rows.column(name) for name in reading.store.key_names}}
        for number, (partial, stored) in enumerate(zip(self._partials[at], reading.partials, strict=True)):
            (values,) = partial_columns(reading.store, stored, rows)
            if partial.function == "sum" and pa.types.is_decimal(values.type):
                counts = columns[self._column(at, Part("count", partial.argument, partial.filter))]
                self.overflows |= values.null_count > np.count_nonzero(np.asarray(counts) == 0)
                values = pa.Array.from_buffers(
                    pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset
                )
            columns[f"c{number}"] = values
        made = pa.table(columns)
        self._totals.append({name: _size(made.column(name)) for name in made.schema.names if name.startswith("c")})
        return made

    def _whole(self, quantity: _Quantity) -> str:
        """The type that holds all sums of a quantity: none is larger than the product of its members' totals."""
        totals = (self._totals[at][self._column(at, part)] for at, part in quantity.factors)
        return "BIGINT" if math.prod(max(total, 1.0) for total in totals) < _SAFE else "HUGEINT"

    def _column(self, at: int, part: Part) -> str:
        return f"c{self._partials[at].index(_as_partial(part))}"

    def text(self, careful: bool) -> str:
        relations = [self._message(at, careful) for at in reversed(self.positions)]
        return f"WITH {', '.join(relations)} SELECT * FROM j0 ORDER BY {WINDOW}"

    def _message(self, at: int, careful: bool) -> str:
        """Two relations: m joined with the messages of the children, and what it adds up to by key."""
        member = self.body.members[at]
        keys = {f"u{number}": self._key(at, part.expression) for number, part in enumerate(member.join)}
        for inner in sorted(self.below[at]):
            source = next((child for child in self.children[at] if inner in self.below[child]), None)
            for number, key in self.body.members[inner].keys:
                keys[f"k{number}"] = self._key(at, key) if source is None else f"j{source}.k{number}"
        listed = [f"m{at}.{WINDOW} AS {WINDOW}", *(f"{text} AS {name}" for name, text in keys.items())]
        needed = dict.fromkeys(quantity.below(self.below[at]) for quantity in (*self.counted, *self.wanted))
        listed += [f"{self._product(at, quantity, careful)} AS {self.name(quantity)}" for quantity in needed]
        joins = "".join(self._join(at, child) for child in self.children[at])
        grouping = ", ".join([WINDOW, *keys])
        sums = [self._added(quantity, careful) for quantity in needed]
        outer = [_outer(self.name(quantity), quantity, careful) for quantity in needed]
        return (
            f"p{at} AS (SELECT {', '.join(listed)} FROM m{at}{joins}), "
            f"s{at} AS (SELECT {', '.join([grouping, *sums])} FROM p{at} GROUP BY {grouping}), "
            f"j{at} AS (SELECT {', '.join([grouping, *outer])} FROM s{at})"
        )

    def _join(self, at: int, child: int) -> str:
        pairs = [f"m{at}.{WINDOW} = j{child}.{WINDOW}"]
        for number, part in enumerate(self.body.members[child].parent_join):
            pairs.append(f"{self._key(at, part.expression)} = j{child}.u{number}")
        return f" JOIN j{child} ON {' AND '.join(pairs)}"

    def _key(self, at: int, expression: Expression) -> str:
        return f"m{at}.k{self.readings[at].store.keys.index(expression)}"

    def _product(self, at: int, quantity: _Quantity, careful: bool) -> str:
        """What a joined row contributes."""
        part = dict(quantity.factors)[at]
        own = f"m{at}.{self._column(at, part)}"
        below = [(child, quantity.below(self.below[child])) for child in self.children[at]]
        messages = [f"j{child}.{self.name(each)}" for child, each in below]
        if quantity.extreme:
            found = (
                own
                if part.function == quantity.extreme
                else next(f"j{child}.{self.name(each)}" for child, each in below if each.extreme)
            )
            others = [f"{own} > 0"] if part.function != quantity.extreme else []
            others += [f"j{child}.{self.name(each.counts)} > 0" for child, each in below if not each.extreme]
            return f"CASE WHEN {' AND '.join(others)} THEN {found} END" if others else found
        if quantity.is_double:
            counts = [f"m{at}.{self._column(at, part if part.function == 'count' else part.counted)}"]
            counts += [f"j{child}.{self.name(each.counts)}" for child, each in below]
            product = " * ".join(f"CAST({factor} AS DOUBLE)" for factor in (own, *messages))
            # An infinite or undefined sum times no row at all is nothing.
            return f"CASE WHEN {' AND '.join(f'{count} > 0' for count in counts)} THEN {product} ELSE 0.0 END"
        if part.function == "sum":
            own = f"CASE WHEN m{at}.{self._column(at, part.counted)} = 0 THEN 0 ELSE {own} END"
        whole = [f"CAST({own} AS {self._whole(quantity)})", *messages]
        product = " * ".join(whole)
        return f"TRY({product})" if careful and messages else product

    def _added(self, quantity: _Quantity, careful: bool) -> str:
        """What rows with the same key add up to."""
        name = self.name(quantity)
        if quantity.extreme:
            return f"{quantity.extreme}({name}) AS {name}"
        if quantity.is_double:
            return f"sum({name}) AS {name}"
        if not careful:
            return f"CAST(sum({name}) AS {self._whole(quantity)}) AS {name}"
        parts = f"sum({name} // {_WORD}) AS {name}_high, sum({name} % {_WORD}) AS {name}_low"
        return f"{parts}, bool_or({name} IS NULL) AS {name}_failed"

    def columns(self, found: pa.Table) -> tuple[pa.RecordBatch, I64]:
        """The keys and partials of the last step, of what the root's message holds."""
        table = found.combine_chunks()
        windows = _array(table, WINDOW).to_numpy()
        names = [f"k{at}" for at in range(len(self.body.key_types))]
        columns = [
            _array(table, name).cast(arrow_type(kind)) for name, kind in zip(names, self.body.key_types, strict=True)
        ]
        for at, partial in enumerate(self.body.partials):
            ((name, declared),) = partial.columns(at)
            values, kind = _array(table, self.name(self.wanted[at])), arrow_type(declared)
            counts = _array(table, self.name(self.counted[at]))
            known = np.asarray(pc.fill_null(pc.not_equal(counts, 0), True).cast(pa.uint8())) != 0
            if partial.function == "count" or (partial.function == "sum" and not self.wanted[at].is_double):
                if partial.function == "count":
                    known = np.ones(len(windows), bool)
                words = fixed_width_words(values.cast(pa.decimal128(38, 0)))
                low, high = (np.ascontiguousarray(words[:, half]) for half in range(2))
                columns.append(of_words(low, high, known & np.asarray(values.is_valid()), kind))
            else:
                missing = pa.array(~known)
                columns.append(pc.if_else(missing, pa.scalar(None, values.type), values).cast(kind))
            names.append(name)
        return pa.RecordBatch.from_arrays(columns, names=names), windows


def _size(values: pa.ChunkedArray) -> float:
    """The sum of the sizes of numbers."""
    if not (pa.types.is_integer(values.type) or pa.types.is_decimal(values.type)):
        return 0.0
    return float(pc.sum(pc.abs(values.cast(pa.float64()))).as_py() or 0.0)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)


def _outer(name: str, quantity: _Quantity, careful: bool) -> str:
    if not careful or quantity.extreme or quantity.is_double:
        return name
    whole = f"CAST({name}_high AS HUGEINT) * {_WORD} + CAST({name}_low AS HUGEINT)"
    return f"CASE WHEN NOT {name}_failed THEN TRY({whole}) END AS {name}"
