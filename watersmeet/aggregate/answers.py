"""The results of all due windows of many queries, from caches of slice stores.

Queries with the same reads share them, and reads that end in the same step are finished together: a
thousand queries that differ in their ranges and slides alone cost no more calls than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from watersmeet.aggregate.due import Caches, CombinedPartials, DueQuery
from watersmeet.aggregate.last_step import FinalStep, finished
from watersmeet.aggregate.readers import relations
from watersmeet.model.types import arrow_type
from watersmeet.store.guard import ExpressionError


@dataclass(frozen=True)
class WindowAnswer:
    """What the due windows of a query give."""

    query: str
    rows: pa.RecordBatch | None  # the outputs, in the order of windows; None where there is a problem
    failures: dict[str, int] = field(default_factory=dict)  # expression -> on how many rows it raised, of all queries
    problem: ExpressionError | None = None
    groups: int = 0  # rows before the last step


def answers(due: Sequence[DueQuery], caches: Caches) -> list[WindowAnswer]:
    """The results of each query, in the order of `due`."""
    return answers_of(relations(due, caches), due)


def answers_of(combined: Iterable[CombinedPartials], due: Sequence[DueQuery]) -> list[WindowAnswer]:
    """The results of each query from the combined partials of all due windows."""
    made: dict[int, WindowAnswer] = {}
    alike: dict[tuple[FinalStep, str], list[CombinedPartials]] = {}
    groups = np.zeros(len(due), np.int64)
    for relation in combined:
        for number, keys in relation.left_out.items():
            groups[number] += keys
        if not relation.rows.num_rows:
            continue
        groups += np.bincount(relation.queries, minlength=len(due))
        for step, part in _by_step(relation, due):
            alike.setdefault((step, part.rows.schema.to_string()), []).append(part)
    for (step, _), parts in alike.items():
        made.update(_finish(step, parts, due))
    found = [made.get(number) or _nothing(each) for number, each in enumerate(due)]
    return [replace(answer, groups=int(count)) for answer, count in zip(found, groups, strict=True)]


def _by_step(relation: CombinedPartials, due: Sequence[DueQuery]) -> Iterator[tuple[FinalStep, CombinedPartials]]:
    """The rows of queries with equal last steps."""
    bounds = np.flatnonzero(np.diff(relation.queries, prepend=-1))
    runs: dict[FinalStep, list[tuple[int, int]]] = {}
    for begin, end in zip(bounds.tolist(), [*bounds[1:].tolist(), len(relation.queries)], strict=True):
        runs.setdefault(due[int(relation.queries[begin])].step, []).append((begin, end))
    if len(runs) == 1:
        yield next(iter(runs)), relation
        return
    for step, pieces in runs.items():
        rows = np.concatenate([np.arange(begin, end) for begin, end in pieces])
        yield step, CombinedPartials(relation.rows.take(pa.array(rows)), relation.queries[rows], relation.windows[rows])


def _finish(
    step: FinalStep, found: list[CombinedPartials], due: Sequence[DueQuery]
) -> Iterator[tuple[int, WindowAnswer]]:
    rows = pa.Table.from_batches([each.rows for each in found]).combine_chunks().to_batches()[0]
    queries, starts = (np.concatenate([getattr(each, name) for each in found]) for name in ("queries", "windows"))
    changes = (np.diff(queries, prepend=-1) != 0) | (np.diff(starts, prepend=0) != 0)
    changes[0] = True
    windows = np.cumsum(changes) - 1
    of_window = queries[changes]  # the query of each window
    try:
        done = finished(step, rows, windows)
    except ExpressionError as problem:
        yield from _one_by_one(step, CombinedPartials(rows, queries, windows), due, problem)
        return
    owner = of_window[done.windows]
    bounds = np.flatnonzero(np.diff(owner, prepend=-1))
    failures = done.failures
    ends = [*bounds[1:].tolist(), len(owner)] if len(owner) else []  # HAVING may leave nothing
    for begin, end in zip(bounds.tolist(), ends, strict=True):
        number = int(owner[begin])
        yield number, WindowAnswer(due[number].query.name, done.rows.slice(begin, end - begin), failures)
        failures = {}


def _one_by_one(
    step: FinalStep, all_of_them: CombinedPartials, due: Sequence[DueQuery], problem: ExpressionError
) -> Iterator[tuple[int, WindowAnswer]]:
    """Each query by itself, where one of them may be the only one to fail."""
    numbers = np.unique(all_of_them.queries).tolist()
    for number in numbers:
        name = due[number].query.name
        if len(numbers) == 1:
            yield number, WindowAnswer(name, None, problem=problem)
            return
        chosen = all_of_them.queries == number
        try:
            done = finished(step, all_of_them.rows.filter(pa.array(chosen)), all_of_them.windows[chosen])
        except ExpressionError as own:
            yield number, WindowAnswer(name, None, problem=own)
        else:
            yield number, WindowAnswer(name, done.rows, done.failures)


def _nothing(due: DueQuery) -> WindowAnswer:
    outputs = due.query.outputs
    empty = [pa.array([], arrow_type(output.type)) for output in outputs]
    return WindowAnswer(due.query.name, pa.RecordBatch.from_arrays(empty, names=[output.name for output in outputs]))
