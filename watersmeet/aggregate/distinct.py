"""Aggregates of distinct values: COUNT, SUM and AVG of a column in which each value counts once.

Distinct values do not combine as numbers do, but as keys: a slice store by the keys of the query and these values has a
row for each value of a group in a slice, and so a window has one for each value of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import Accumulating
from watersmeet.aggregate.accumulator import Accumulator
from watersmeet.aggregate.grouping import RowGroups, grouped, key_codes
from watersmeet.aggregate.needs import counts_of
from watersmeet.aggregate.reading import SliceRead
from watersmeet.aggregate.values import of_digits
from watersmeet.model.forms import PartialAggregate, SliceAggregates
from watersmeet.model.types import arrow_type
from watersmeet.store.codes import fixed_width
from watersmeet.store.kernels import I64

Read = tuple[pa.RecordBatch, I64]  # rows of windows, and the window of each


def distinct_columns(
    body: SliceAggregates, groups: Read, read: Sequence[tuple[SliceRead, Read]]
) -> Iterator[tuple[int, pa.Array]]:
    """The partials of distinct values, by their numbers, for rows of windows and keys.

    `read` has what the windows have of each combination of values, in the order of `body.distinct`."""
    for values, (reading, (rows, windows)) in zip(body.distinct, read, strict=True):
        ids = _groups_of(groups, (rows, windows), len(body.keys))
        columns = [rows.column(f"k{len(body.keys) + at}") for at in range(len(values))]
        known = np.ones(len(windows), np.bool_)
        for column in columns:
            known &= np.asarray(column.is_valid())
        filters = [each.filter for each in counts_of(body, values)]
        for at, partial in enumerate(body.partials):
            if partial.distinct == values:
                stored = reading.partials[filters.index(partial.filter)]
                (name,) = reading.store.columns_of(Accumulator("count", None, stored.filter))
                counting = known & (fixed_width(rows.column(name), np.int64) > 0)
                yield at, _aggregated(partial, columns[0], ids, counting, len(groups[1]))


def _groups_of(groups: Read, found: Read, keys: int) -> I64:
    """For each row that was found, the group that it belongs to."""
    codes = [np.concatenate((groups[1], found[1]))]
    for at in range(keys):
        both = pa.concat_arrays([groups[0].column(f"k{at}"), found[0].column(f"k{at}")])
        codes += key_codes(both)
    return grouped(codes).ids[len(groups[1]) :]  # the groups come first, each once, so that their numbers are theirs


def _aggregated(partial: PartialAggregate, values: pa.Array, ids: I64, counting: np.ndarray, groups: int) -> pa.Array:
    counts = np.bincount(ids[counting], minlength=groups)
    if partial.function == "count":
        return pa.array(counts, pa.int64())
    part, kind = Accumulator("sum", partial.argument), arrow_type(partial.type)
    assert partial.argument is not None
    given = {partial.argument: values.filter(pa.array(counting))}
    sums = Accumulating(RowGroups(ids[counting], np.arange(groups)), given).of(part)
    if not part.digits:
        return pa.array(fixed_width(sums[0], np.float64), mask=counts == 0).cast(kind)
    return of_digits([fixed_width(digit, np.int64) for digit in sums], counts > 0, kind)
