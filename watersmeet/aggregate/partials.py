"""From rows to partial aggregates: what gather tasks do with the rows that arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.accumulate import Accumulating
from watersmeet.aggregate.arriving import Arriving, codes_of, decoded, keys_at
from watersmeet.aggregate.grouping import grouped
from watersmeet.aggregate.slice_store import SliceStore
from watersmeet.model.expression import Expression
from watersmeet.store.bucket import Bucket
from watersmeet.store.kernels import I64, U8


@dataclass(frozen=True)
class SlicedRows:
    rows: Bucket | None  # of the slice store, in the order of slices; None where no row passes
    failures: dict[str, int] = field(default_factory=dict)  # expression -> on how many rows it raised


def partial_aggregates(
    store: SliceStore, rows: pa.RecordBatch, tau: I64, earliest: I64 | None = None, arriving: Arriving | None = None
) -> SlicedRows:
    """One row for each slice and key among these rows. `earliest`: of results of a join, the oldest members' times;
    `arriving`: what other stores know of these rows."""
    known = arriving or Arriving(rows)
    filters = [*store.filters, *(part.filter for part in store.parts if part.filter is not None)]
    passing, failures = known.passing(list(dict.fromkeys(filters)))
    chosen = _wanted(store, passing)
    if chosen is not None:
        known, tau = known.some(chosen), tau[chosen]
        passing = {each: bits[chosen] for each, bits in passing.items()}
        earliest = None if earliest is None else earliest[chosen]
    if not len(tau):
        return SlicedRows(None, _failed(failures))
    arguments = [part.argument for part in store.parts if part.argument is not None]
    values, raised = known.values(list(dict.fromkeys((*store.keys, *arguments))))
    for text, count in raised.items():
        failures[text] = failures.get(text, 0) + count
    slices = tau // store.width
    codes = [slices, *(code for key in store.keys for code in codes_of(values[key]))]
    oldest: I64 | None = None
    if store.spread:
        assert earliest is not None
        oldest = earliest // store.width * store.width
        codes.append(oldest)
    groups = grouped(codes)
    columns = [keys_at(values[key], groups.first) for key in store.keys]
    columns += [] if oldest is None else [pa.array(oldest[groups.first])]
    accumulating = Accumulating(groups, {each: decoded(values[each]) for each in arguments}, passing)
    for part in store.parts:
        columns += accumulating.of(part)
    made = pa.RecordBatch.from_arrays(columns, schema=store.schema)
    starts = slices[groups.first] * store.width
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        made, starts = made.take(pa.array(order)), starts[order]
    return SlicedRows(Bucket(made, starts), _failed(failures))


def _wanted(store: SliceStore, passing: Mapping[Expression, U8]) -> I64 | None:
    """The rows that some query of the store wants; None: all."""
    if not store.filters:
        return None
    wanted = np.zeros(len(passing[store.filters[0]]), np.uint8)
    for each in store.filters:
        wanted |= passing[each]
    return None if wanted.all() else np.flatnonzero(wanted)


def _failed(failures: Mapping[str, int]) -> dict[str, int]:
    return {text: failed for text, failed in failures.items() if failed}
