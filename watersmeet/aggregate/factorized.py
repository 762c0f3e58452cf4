"""Aggregates over an acyclic join without the join: messages go up the tree, from the leaves to the root.

A member of the join has its partials by window, join keys and group keys. Its message to its parent is a relation with
one row for each window, key of the join with the parent, and combination of group keys below. It has for each aggregate
what the rows below contribute:

    count, sum   the sum over joined rows of the product of their factors: of an argument the sum, else the count
    min, max     the extreme of the member that has the argument, where all others have rows that count

A message is made of a member's partials joined with the messages of its children: factors are multiplied, and then
added by key. So the work is linear in partials and messages; no result of the join is ever made. All windows of all
queries with the same body are one relation.

Whole numbers are exact: int64 where it is sure that no sum overflows, else Python's own. What its type does not hold in
the end is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregate.accumulate import extremes
from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import RowGroups, grouped, key_codes
from watersmeet.aggregate.kernels import add_values
from watersmeet.aggregate.needs import counted_part, factor_part, member_partials
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.values import of_words
from watersmeet.model.expression import Expression
from watersmeet.model.forms import FactorizedAggregates, JoinPartial
from watersmeet.model.types import arrow_type
from watersmeet.store.codes import EVERY_ROW, fixed_width
from watersmeet.store.kernels import I64

_SAFE = 2.0**62
_WORD = 1 << 64
Numbers = np.ndarray  # int64, float64, or Python's integers


@dataclass(frozen=True)
class _Quantity:
    """A column of a message: the factors of the members below, by position; of an extreme, one is a min or max."""

    factors: tuple[tuple[int, Accumulator], ...]

    @cached_property
    def extreme(self) -> str:
        return next((part.function for _, part in self.factors if part.function in ("min", "max")), "")

    def below(self, members: frozenset[int]) -> _Quantity:
        return _Quantity(tuple(factor for factor in self.factors if factor[0] in members))

    @cached_property
    def counts(self) -> _Quantity:
        """How many joined rows count."""
        return _Quantity(tuple((at, part if part.function == "count" else part.counted) for at, part in self.factors))


@dataclass(frozen=True)
class _Message:
    """Rows with a window, the key of the join with the parent, group keys, and quantities."""

    windows: I64
    join: list[pa.Array]
    keys: dict[int, pa.Array]
    numbers: dict[_Quantity, Numbers]
    extremes: dict[_Quantity, pa.Array]

    def values(self, quantity: _Quantity) -> Numbers | pa.Array:
        return self.extremes[quantity] if quantity.extreme else self.numbers[quantity]


def joined(
    body: FactorizedAggregates, reads: Sequence[SliceRead], members: Sequence[tuple[pa.RecordBatch, I64]]
) -> tuple[pa.RecordBatch, I64]:
    """The aggregates of the join in each window: the columns of keys and partials that the last step reads, and the
    windows, in order. `members` has for each member the rows of its store, and their windows."""
    messages = JoinMessages(body, reads)
    messages.add(members)
    return messages.result()


class JoinMessages:
    """What the root of a join tree gets: of all rows, or of pieces of them that do not join each other."""

    def __init__(self, body: FactorizedAggregates, reads: Sequence[SliceRead]) -> None:
        self._body, self._reads = body, reads
        self._messages: list[_Message] = []

    def add(self, members: Sequence[tuple[pa.RecordBatch, I64]]) -> None:
        """Take a piece: for each member the rows of its store, and their windows."""
        self._messages.append(_JoinTree(self._body, self._reads, members).message(0))

    def result(self, numbers: Sequence[I64] = ()) -> tuple[pa.RecordBatch, I64]:
        """As `joined`. The windows of several pieces have the numbers that are given for each."""
        body, message = self._body, self._messages[0]
        if numbers:
            pieces = zip(self._messages, numbers, strict=True)
            message = _added([replace(each, windows=numbered[each.windows]) for each, numbered in pieces])
        order = np.argsort(message.windows, kind="stable")
        names = [f"k{at}" for at in range(len(body.key_types))]
        columns = [message.keys[at].cast(arrow_type(kind)) for at, kind in enumerate(body.key_types)]
        for at, partial in enumerate(body.partials):
            ((name, declared),) = partial.columns(at)
            names.append(name)
            columns.append(_result(body, partial, message, arrow_type(declared)))
        rows = pa.RecordBatch.from_arrays(columns, names=names)
        return rows.take(pa.array(order)), message.windows[order]


def with_empty_windows(
    body: FactorizedAggregates, rows: pa.RecordBatch, windows: I64, count: int
) -> tuple[pa.RecordBatch, I64]:
    """The one row of each window of a join without keys, also of windows from 0 to `count` in which nothing joins."""
    places = np.full(count, -1, np.int64)
    places[windows] = np.arange(len(windows))
    filled = []
    for partial, column in zip(body.partials, rows.columns, strict=True):
        found = column.take(pa.array(np.maximum(places, 0), mask=places < 0))
        filled.append(pc.if_else(pa.array(places < 0), 0, found) if partial.function == "count" else found)
    return pa.RecordBatch.from_arrays(filled, names=rows.schema.names), np.arange(count)


class _JoinTree:
    def __init__(
        self, body: FactorizedAggregates, reads: Sequence[SliceRead], members: Sequence[tuple[pa.RecordBatch, I64]]
    ) -> None:
        self.body = body
        self.reads = reads
        self.members = members
        positions = range(len(body.members))
        self.children = {at: [c for c, member in enumerate(body.members) if member.parent == at] for at in positions}
        self.below: dict[int, frozenset[int]] = {}
        for at in reversed(positions):
            self.below[at] = frozenset((at,)).union(*(self.below[child] for child in self.children[at]))
        self._partials = [member_partials(body, at) for at in positions]
        counted = [_quantity(partial, positions, counted_part) for partial in body.partials]
        self._needed = dict.fromkeys((*counted, *(_quantity(each, positions, factor_part) for each in body.partials)))

    def message(self, at: int) -> _Message:
        """What a member sends to its parent; of the root, the result."""
        rows, windows = self.members[at]
        own = np.arange(len(windows))
        found: list[tuple[_Message, I64]] = []  # by child: its message, and its row for each joined row
        for child in self.children[at]:
            message = self.message(child)
            sides = [
                self._key(at, part.expression, rows).take(pa.array(own))
                for part in self.body.members[child].parent_join
            ]
            left, right = _matches((windows[own], sides), (message.windows, message.join))
            found = [(before, chosen[left]) for before, chosen in found]
            own = own[left]
            found.append((message, right))
        keys = {number: self._key(at, key, rows).take(pa.array(own)) for number, key in self.body.members[at].keys}
        for message, chosen in found:
            keys |= {number: values.take(pa.array(chosen)) for number, values in message.keys.items()}
        up = [self._key(at, part.expression, rows).take(pa.array(own)) for part in self.body.members[at].join]
        groups = grouped(_codes(windows[own], [*up, *keys.values()]))
        first = pa.array(groups.first)
        joined_rows = _JoinedRows(self._columns(at), own, found)
        numbers: dict[_Quantity, Numbers] = {}
        best: dict[_Quantity, pa.Array] = {}
        for quantity in dict.fromkeys(each.below(self.below[at]) for each in self._needed):
            parts = [quantity.below(self.below[child]) for child in self.children[at]]
            if quantity.extreme:
                values, known = joined_rows.extreme(dict(quantity.factors)[at], parts)
                best[quantity] = extremes(quantity.extreme, values, known.astype(np.uint8), groups)
            else:
                numbers[quantity] = joined_rows.added(dict(quantity.factors)[at], parts, groups)
        return _Message(
            windows[own][groups.first],
            [values.take(first) for values in up],
            {number: values.take(first) for number, values in keys.items()},
            numbers,
            best,
        )

    def _key(self, at: int, expression: Expression, rows: pa.RecordBatch) -> pa.Array:
        return rows.column(f"k{self.reads[at].store.keys.index(expression)}")

    def _columns(self, at: int) -> dict[Accumulator, Numbers | pa.Array]:
        """The partials of a member: counts and sums as numbers, without a scale, and extremes."""
        (rows, _), store = self.members[at], self.reads[at].store
        found: dict[Accumulator, Numbers | pa.Array] = {}
        for partial, stored in zip(self._partials[at], self.reads[at].partials, strict=True):
            part = Accumulator(partial.function, partial.argument, partial.filter)
            columns = [rows.column(name) for name in store.columns_of(replace(part, filter=stored.filter))]
            if part.function in ("min", "max"):
                found[part] = columns[0]
            elif columns[0].type == pa.float64():
                found[part] = fixed_width(columns[0], np.float64)
            else:
                found[part] = _of_digits([fixed_width(column, np.int64) for column in columns])
        return found


def _added(messages: Sequence[_Message]) -> _Message:
    """Messages of pieces as one."""
    windows = np.concatenate([each.windows for each in messages])
    keys = {at: pa.concat_arrays([each.keys[at] for each in messages]) for at in messages[0].keys}
    groups = grouped(_codes(windows, list(keys.values())))
    numbers = {
        quantity: _sums(np.concatenate([each.numbers[quantity] for each in messages]), groups)
        for quantity in messages[0].numbers
    }
    best: dict[_Quantity, pa.Array] = {}
    for quantity in messages[0].extremes:
        values = pa.concat_arrays([each.extremes[quantity] for each in messages])
        best[quantity] = extremes(quantity.extreme, values, np.asarray(values.is_valid()).astype(np.uint8), groups)
    first = pa.array(groups.first)
    return _Message(windows[groups.first], [], {at: each.take(first) for at, each in keys.items()}, numbers, best)


def _sums(values: Numbers, groups: RowGroups) -> Numbers:
    """The sums of values by group; whole numbers are exact."""
    if values.dtype == np.float64:
        added = np.zeros(len(groups))
        add_values(groups.ids, EVERY_ROW, values, added)
        return added
    sizes = np.abs(values.astype(np.float64))
    if np.bincount(groups.ids, sizes, len(groups)).max(initial=0.0) < _SAFE:
        whole = np.zeros(len(groups), np.int64)
        add_values(groups.ids, EVERY_ROW, values.astype(np.int64), whole)
        return whole
    exact = np.zeros(len(groups), object)
    np.add.at(exact, groups.ids, values.astype(object))
    return exact


def _result(body: FactorizedAggregates, partial: JoinPartial, message: _Message, kind: pa.DataType) -> pa.Array:
    """A partial as the last step reads it: NULL where no row counts, or where its type does not hold it."""
    positions = range(len(body.members))
    values = message.values(_quantity(partial, positions, factor_part))
    if isinstance(values, pa.Array):
        return values.cast(kind)
    known = np.ones(len(values), bool)
    if partial.function != "count":
        known = np.asarray(message.numbers[_quantity(partial, positions, counted_part)] != 0, bool)
    if values.dtype == np.float64:
        return pa.array(values, mask=~known).cast(kind)
    if values.dtype == np.int64:
        return of_words(values, values >> 63, known, kind)
    low, high = _words(values)
    return of_words(low, high, known & np.array([-(1 << 127) <= value < 1 << 127 for value in values], bool), kind)


class _JoinedRows:
    """Rows of a member with one row of each child's message, and what they contribute."""

    def __init__(
        self, columns: dict[Accumulator, Numbers | pa.Array], own: I64, found: list[tuple[_Message, I64]]
    ) -> None:
        self._columns, self._own, self._found = columns, own, found

    def added(self, part: Accumulator, parts: list[_Quantity], groups: RowGroups) -> Numbers:
        """The sums of products, by group."""
        factors = [self._columns[part][self._own]]
        factors += [message.numbers[of][rows] for (message, rows), of in zip(self._found, parts, strict=True)]
        if any(factor.dtype == np.float64 for factor in factors):
            with np.errstate(invalid="ignore", over="ignore"):  # 0 × ∞ is NaN, and too large is ∞, as in Spark
                product = np.prod([factor.astype(np.float64) for factor in factors], axis=0)
            product = np.where(self._counts(part, parts), product, 0.0)
            added = np.zeros(len(groups))
            add_values(groups.ids, EVERY_ROW, product, added)
            return added
        with np.errstate(over="ignore"):  # then it is larger than what is safe
            sizes = np.prod([np.abs(factor.astype(np.float64)) for factor in factors], axis=0)
        if np.bincount(groups.ids, sizes, len(groups)).max(initial=0.0) < _SAFE:
            whole = np.zeros(len(groups), np.int64)
            add_values(groups.ids, EVERY_ROW, np.prod([factor.astype(np.int64) for factor in factors], axis=0), whole)
            return whole
        exact = np.zeros(len(groups), object)
        np.add.at(exact, groups.ids, np.prod([factor.astype(object) for factor in factors], axis=0))
        return exact

    def _counts(self, part: Accumulator, parts: list[_Quantity]) -> np.ndarray:
        """Which joined rows count: those for which every member has a row that does (∞ times no row is nothing)."""
        counted = part if part.function == "count" else part.counted
        known = self._columns[counted][self._own] > 0
        for (message, rows), of in zip(self._found, parts, strict=True):
            known &= np.asarray(message.numbers[of.counts][rows] > 0, bool)
        return known

    def extreme(self, part: Accumulator, parts: list[_Quantity]) -> tuple[pa.Array, np.ndarray]:
        """The values of the member that has them, and which of them count."""
        if part.function != "count":
            values = self._columns[part].take(pa.array(self._own))
        for (message, rows), of in zip(self._found, parts, strict=True):
            if of.extreme:
                values = message.extremes[of].take(pa.array(rows))
        return values, self._counts(part, parts) & np.asarray(values.is_valid())


def _quantity(partial: JoinPartial, positions: range, part: Callable[[JoinPartial, int], Accumulator]) -> _Quantity:
    return _Quantity(tuple((at, part(partial, at)) for at in positions))


def _codes(windows: I64, keys: list[pa.Array]) -> list[I64]:
    return [windows, *(code for values in keys for code in key_codes(values))]


def _matches(left: tuple[I64, list[pa.Array]], right: tuple[I64, list[pa.Array]]) -> tuple[I64, I64]:
    """The pairs of rows with the same window and equal keys, none of them NULL."""
    keys = [pa.concat_arrays([one, other.cast(one.type)]) for one, other in zip(left[1], right[1], strict=True)]
    groups = grouped(_codes(np.concatenate((left[0], right[0])), keys))
    known = np.ones(len(groups.ids), bool)
    for values in keys:
        known &= np.asarray(values.is_valid())
    ids, others = groups.ids[: len(left[0])], groups.ids[len(left[0]) :]
    stored = np.flatnonzero(known[len(left[0]) :])
    order = stored[np.argsort(others[stored], kind="stable")]
    counts = np.bincount(others[stored], minlength=len(groups))
    begins = np.cumsum(counts) - counts
    lengths = np.where(known[: len(ids)], counts[ids], 0)
    chosen = np.repeat(np.arange(len(ids)), lengths)
    places = np.repeat(begins[ids] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    return chosen, order[places]


def _of_digits(digits: list[I64]) -> Numbers:
    """The numbers of normalized digits."""
    if len(digits) == 1:
        return digits[0]
    if len(digits) == 2 and (digits[1] == digits[1].astype(np.int32)).all():
        return (digits[1] << 32) | digits[0]
    whole: Numbers = np.sum([digit.astype(object) << (32 * at) for at, digit in enumerate(digits)], axis=0)
    return whole


def _words(values: Numbers) -> tuple[I64, I64]:
    """The lower 128 bits of Python's integers."""
    low = np.array([value % _WORD for value in values], np.uint64).view(np.int64)
    return low, np.array([(value >> 64) % _WORD for value in values], np.uint64).view(np.int64)
