"""Weights of the costs as a running engine measures them: shipped weights, scaled so that they explain its stages.

Tasks time their stages and count what they do there. Weights of one kind are scaled together, because what a tick has
of each is much the same from tick to tick: there is not enough in it to tell all weights apart. A few steps that took
long for another reason do not matter: a scale is the middle of what the steps say, and stays near the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.adapt.measure import Measurements, StepCount
from watersmeet.home import counters as stages
from watersmeet.optimize.weights import Weights, bounded

_LEAST_MICROS = 2000.0  # of CPU time in an epoch, below which a stage tells nothing
_PRIOR = 0.3  # how much the shipped weights count, against one step that took all the time
_SLOWLY = 0.5  # share of what an epoch says in what is known after it

_STEPS: tuple[tuple[str, ...], ...] = (("miss", "hit", "far"), ("match",), ("step", "bucket"))
DONE: Mapping[str, Mapping[str, str]] = {  # by stage, what is done there and its weight
    stages.GATHER: {
        stages.ROWS: "row",
        stages.INDEX_ENTRIES: "index_entry",
        stages.FILTER_BITS: "filter_bit",
    },
    stages.RESULTS: {
        stages.RESULT_ROWS: "result_row",
        stages.RESULT_BYTES: "result_byte",
        stages.RESULT_FILES: "result_file",
    },
    stages.KEEPING: {
        stages.KEPT_ROWS: "kept_row",
        stages.KEPT_ENTRIES: "index_entry",
        stages.KEPT_FILES: "file",
    },
    stages.SLICING: {
        stages.SLICED_ROWS: "sliced_row",
        stages.SLICED_VALUES: "sliced_value",
        stages.SLICE_VALUES: "slice_value",
        stages.SLICE_CALLS: "slice_call",
    },
    stages.WINDOWS: {
        stages.READINGS: "window_call",
        stages.READ_VALUES: "window_value",
        stages.SLICE_VALUES: "slice_read",
    },
    stages.SPARK_WINDOWS: {
        stages.WINDOW_JOBS: "window_job",
        stages.WINDOW_ROWS: "window_row",
    },
    stages.TASK_WINDOWS: {
        stages.TASK_JOBS: "task_window",
        stages.TASK_ROWS: "task_row",
    },
}


def fitted(known: Mapping[str, float], measured: Measurements) -> dict[str, float]:
    """Measured weights by name, after an epoch."""
    before = bounded(known)
    scales = _scales_of_steps(list(measured.steps.values()), before)
    for stage, weights in DONE.items():
        expected = sum(measured.done.get(what, 0) * getattr(before, name) for what, name in weights.items())
        spent = measured.spent.get(stage, 0)
        if spent >= _LEAST_MICROS and expected > 0:
            # An index entry is paid by every stage that makes one; its weight follows the streams, which have most.
            names = [name for name in weights.values() if stage == stages.GATHER or name != "index_entry"]
            scales |= dict.fromkeys(names, spent / expected)
    found = {name: getattr(before, name) * (1 + _SLOWLY * (scale - 1)) for name, scale in scales.items()}
    return {**known, **{name: getattr(bounded(found), name) for name in found}}


def _scales_of_steps(steps: Sequence[StepCount], weights: Weights) -> dict[str, float]:
    """By how much the weights of steps have to be scaled to explain their times, as least squares with a prior."""
    used = [step for step in steps if step.facts is not None and step.micros > 0]
    total = sum(step.micros for step in used)
    if total < _LEAST_MICROS:
        return {}
    rows, times = [], []
    for step in used:
        facts = step.facts
        assert facts is not None
        calls = step.ticks * (weights.step + weights.bucket * facts.buckets)
        parts = (step.came * weights.probe(facts.rows, facts.hits, facts.buckets), step.found * weights.match, calls)
        expected = sum(parts)
        # A step counts by the root of its time; one that is off by far counts as if it were off by a factor of four.
        limited = min(4 * expected, max(expected / 4, step.micros))
        rows.append([part / np.sqrt(expected * total) for part in parts])
        times.append(limited / np.sqrt(expected * total))
    matrix = np.vstack([np.array(rows), np.sqrt(_PRIOR) * np.eye(len(_STEPS))])
    goal = np.concatenate([np.array(times), np.full(len(_STEPS), np.sqrt(_PRIOR))])
    scales = np.linalg.lstsq(matrix, goal, rcond=None)[0]
    return {name: max(0.0, float(scale)) for group, scale in zip(_STEPS, scales, strict=True) for name in group}
