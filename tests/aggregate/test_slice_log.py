"""Logs of slices give the rows that were appended and not forgotten, in the order of their slices."""

from __future__ import annotations

from random import Random
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from watersmeet.aggregate import slice_log
from watersmeet.aggregate.accumulator import ROWS, Accumulator
from watersmeet.aggregate.slice_log import SliceLog
from watersmeet.aggregate.slice_store import EARLIEST, SliceStore
from watersmeet.model.expression import ColumnRef

K, X, D = (ColumnRef(*each) for each in (("k", "bigint"), ("x", "bigint"), ("d", "double")))
SUM, MEAN = Accumulator("sum", X), Accumulator("sum", D)
PARTS = (ROWS, SUM, SUM.counted, MEAN, MEAN.counted)
LARGEST = (0, 0, 1, 200, 1000, 70_000, 1 << 40)  # of the values in a batch: of which none may be above 0


def store(spread: bool) -> SliceStore:
    return SliceStore("r", (), (K,), PARTS, 10, spread=spread)


def batch(random: Random, of: SliceStore, slices: list[int]) -> pa.RecordBatch:
    most = random.choice(LARGEST)
    columns = {}
    for field in of.schema:
        if field.name == EARLIEST:
            values = pa.array([each - 10 * random.randint(0, 3) for each in slices], field.type)
        elif pa.types.is_floating(field.type):
            values = pa.array([random.choice([0.0, 0.5]) for _ in slices], field.type)
        else:
            values = pa.array([random.randint(0, most) for _ in slices], field.type)
        columns[field.name] = values
    return pa.RecordBatch.from_pydict(columns, schema=of.schema)


@settings(max_examples=examples(100))
@given(st.integers(0, 1 << 32).map(Random), st.booleans(), st.sampled_from([ROWS, SUM.counted]))
def test_what_was_appended_is_read(random: Random, spread: bool, present: Accumulator) -> None:
    of = store(spread)
    with mock.patch.object(slice_log, "_SMALLEST", 4):
        log = SliceLog(of, present)
        log.ask_for(PARTS)
        expected: list[tuple[int, int, int | None, dict[str, float]]] = []
        now = horizon = key = 0
        for _ in range(random.randint(1, 12)):
            now += 10 * random.randint(0, 3)
            slices = sorted(max(horizon, now - 10 * random.randint(0, 2)) for _ in range(random.randint(0, 9)))
            rows, keys = batch(random, of, slices), np.arange(key, key + len(slices), dtype=np.int32)
            key += len(slices)
            log.append(rows, np.array(slices, np.int64), keys)
            (counted,) = of.columns_of(present)
            for at, row in enumerate(rows.to_pylist()):
                if present == ROWS or row[counted]:
                    expected.append((slices[at], int(keys[at]), row.get(EARLIEST), row))
            expected.sort(key=lambda each: each[0])
            if random.random() < 0.4:
                horizon = max(horizon, now - 10 * random.randint(0, 4))
                log.forget(horizon)
                expected = [each for each in expected if each[0] >= horizon]
            begin = horizon + 10 * random.randint(-1, 3)
            check(log, of, (begin, begin + 10 * random.randint(0, 5)), expected)


def check(
    log: SliceLog, of: SliceStore, span: tuple[int, int], rows: list[tuple[int, int, int | None, dict[str, float]]]
) -> None:
    wanted = [each for each in rows if span[0] <= each[0] < span[1]]
    run = log.between(*span)
    assert run[1] - run[0] == len(wanted)
    assert len(log) == len(rows)
    if not wanted:
        return
    assert log.keys(*run).tolist() == [key for _, key, _, _ in wanted]
    earliest = log.earliest(*run)
    assert (None if earliest is None else earliest.tolist()) == ([each[2] for each in wanted] if of.spread else None)
    for part in PARTS:
        for name, values in zip(of.columns_of(part), log.values(part, *run), strict=True):
            found = values.tolist() if len(values) else [0] * len(wanted)
            assert found == [row[name] for *_, row in wanted], name
