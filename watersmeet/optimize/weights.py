"""What tasks do, and the microseconds of CPU time that each of it takes; or the unit costs of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import log2

from watersmeet.model import Theta

NEAR = 1024  # rows of a bucket whose index is in the cache of the processor
FARTHEST = 14  # doublings of it after which a probe costs no more


@dataclass(frozen=True)
class Weights:
    # For each tuple of a step
    miss: float  # a probe of the index of a bucket that finds nothing,
    hit: float  # one that finds something, in a small bucket,
    far: float  # and more for each doubling of the rows of the bucket
    match: float  # a row found and put into a partial result
    sent: float = 0.0  # a tuple through the shuffle, with several partitions
    # For each row that is looked at because no equality leads to it
    found: float = 0.02  # in a range of a sorted index
    computed: float = 0.002  # by a program in the probe loop
    evaluated: float = 0.06  # by SQL, in blocks
    called: float = 0.2  # by a function of the user,
    called_by_row: float = 2.0  # one row a call
    # For each step and tick
    step: float = 0.0
    bucket: float = 0.0  # for each bucket of the store that it probes
    # For each row of a store
    kept_row: float = 1.0  # put together, written and merged, in a materialized store or a further layout
    index_entry: float = 0.0  # for each key that the store is probed by
    filter_bit: float = 0.0  # for each filter of a query
    scanned: float = 0.0  # looked at by its key in a pass over a store without an index
    # For each tick
    file: float = 0.0  # of a materialized store
    phase: float = 0.0  # a round of orders after the first one
    # What all plans have in common
    tick: float = 0.0
    row: float = 0.0  # read and stored
    result_row: float = 0.0
    result_byte: float = 0.0
    result_file: float = 0.0
    # For each row that goes into slices, and for each of its values: those of keys and of parts of aggregates
    sliced_row: float = 0.0
    sliced_value: float = 0.0
    # For each value of a slice store, of which there is a row for each slice and key
    slice_value: float = 0.0  # written and merged
    slice_read: float = 0.0  # read when windows are answered
    slice_call: float = 0.0  # for each batch of rows that goes into a store, and for each file of it
    # For each window that is made of slices
    window_call: float = 0.0  # for each reading of a store in a tick that closes windows
    window_value: float = 0.0  # for each key and value
    # For each window that Spark computes, and each row in it,
    window_job: float = 0.0
    window_row: float = 0.0
    # and that a task computes from rows
    task_window: float = 0.0
    task_row: float = 0.0
    once: bool = False  # the papers count each combination of rows once: 1/j of them for each of j starts

    def probe(self, rows: float, hits: float, buckets: float = 1.0) -> float:
        """A probe of all buckets of a store of so many rows; a share of the probes finds something in one of them."""
        here = rows / buckets
        doublings = min(FARTHEST, log2(here / NEAR)) if here > NEAR else 0.0
        return self.miss * buckets + (self.hit - self.miss + self.far * doublings) * hits

    def tested(self, theta: Theta) -> float:
        """A row that is looked at because of this predicate alone."""
        if theta.is_always_true:
            return 0.0  # every pair is a result, which is paid for when it is sent on
        if theta.function is not None:
            return self.called_by_row if theta.function.by_row else self.called
        return self.computed if theta.program else self.evaluated


def share_found(came: float, found: float) -> float:
    """The share of the tuples that come to a step which find something. A size may be 0: a product of so many
    selectivities that no number is small enough for it."""
    return found / came if found < came else 1.0


# The costs of CLASH and MultiStream: messages, of which keeping a tuple takes as many as probing with it.
PAPER = Weights(miss=1.0, hit=1.0, far=0.0, match=0.0, once=True)

# From `bench/run calibrate` on two quiet cores of an AMD EPYC.
SHIPPED = Weights(
    miss=0.0205,
    hit=0.0205,
    far=0.0113,
    match=0.055,
    sent=0.5,
    step=50.0,
    bucket=6.2,
    kept_row=0.28,
    index_entry=0.051,
    filter_bit=0.01,
    scanned=0.002,
    file=1660.0,
    phase=1490.0,
    tick=20400.0,
    row=0.17,
    result_row=0.052,
    result_byte=0.0026,
    result_file=2080.0,
    sliced_row=0.005,
    sliced_value=0.0011,
    slice_value=0.021,
    slice_read=0.125,
    slice_call=340.0,
    window_call=1780.0,
    window_value=0.045,
    window_job=500_000.0,
    window_row=1.0,
    task_window=8_000.0,
    task_row=0.02,
)
# With `executor=local` a tick wakes no other processes, and no order travels. The command gave about 12 ms on a busy
# machine; the tick is set lower, because the other weights come from a quiet one. To be measured again.
EMBEDDED = replace(SHIPPED, phase=500.0, tick=10000.0)

_WITHIN = 4.0  # a weight that an engine measures is at most so many times more or less than the shipped one


def shipped(executor: str) -> Weights:
    """The weights of an engine that has measured nothing, by the executor of its orders."""
    return EMBEDDED if executor == "local" else SHIPPED


def bounded(weights: Mapping[str, float], default: Weights = SHIPPED) -> Weights:
    """Measured weights, each within a factor of the shipped one; what is not measured, or not known, is as shipped."""
    known = {part.name: getattr(default, part.name) for part in fields(Weights) if part.name != "once"}
    measured = {
        name: min(known[name] * _WITHIN, max(known[name] / _WITHIN, float(value)))
        for name, value in weights.items()
        if name in known
    }
    return replace(default, **measured)
