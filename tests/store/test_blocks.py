"""The loops for steps without an equality, against nested loops in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.predicate import Program
from watersmeet.store.blocks import BLOCK, probe_all, probe_range
from watersmeet.store.programs import Arranged, arranged, computed, is_safe

_SMALL = st.integers(-20, 20)
NO_SETS = np.empty(0, np.uint8)
NO_DEADLINE = np.empty(0, np.int64)


def collect(look: Callable[..., tuple[int, int, int]], rows: int, room: int) -> list[tuple[int, int, int, int]]:
    """All matches, with outputs that hold only a few at a time."""
    found = []
    row, at = 0, -1
    while row < rows:
        left, stored = np.empty(room, np.int32), np.empty(room, np.int32)
        latest, deadline, sets = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint8)
        count, row, at = look(row, at, left, stored, latest, deadline, sets)
        found += list(zip(*(array[:count].tolist() for array in (left, stored, latest, deadline)), strict=True))
    return found


def expected(
    latest: np.ndarray, deadline: np.ndarray, tau: np.ndarray, window: int, true: Callable[[int, int], bool]
) -> list[tuple[int, int, int, int]]:
    return [
        (row, stored, max(latest[row], tau[stored]), min(deadline[row], tau[stored] + window))
        for row in range(len(latest))
        for stored in range(len(tau))
        if max(latest[row], tau[stored]) <= min(deadline[row], tau[stored] + window) and true(row, stored)
    ]


@given(
    st.lists(st.tuples(_SMALL, _SMALL, st.integers(0, 15)), max_size=12),
    st.lists(st.tuples(_SMALL, _SMALL), max_size=30),
    st.sampled_from((0, 3, 100)),
    st.integers(1, 7),
    st.booleans(),
    st.booleans(),
)
def test_a_range_finds_what_nested_loops_find(
    probing: list[tuple[int, int, int]],
    stored: list[tuple[int, int]],
    window: int,
    room: int,
    doubles: bool,
    open_end: bool,
) -> None:
    dtype = np.float64 if doubles else np.int64
    lows = np.array([low for low, _, _ in probing], dtype)
    highs = lows[:0] if open_end else lows + np.array([width for _, _, width in probing], dtype)
    latest = np.array([time for _, time, _ in probing], np.int64)
    keys, tau = (np.array([row[at] for row in stored], kind) for at, kind in ((0, dtype), (1, np.int64)))
    order = np.argsort(keys, kind="stable").astype(np.int32)
    values = keys[order]

    def look(row: int, at: int, *outputs: np.ndarray) -> tuple[int, int, int]:
        probed: list[Any] = [latest, latest + window, NO_SETS, row, at]
        stored: list[Any] = [values, order, tau, NO_DEADLINE, NO_SETS, window]
        return probe_range(lows, highs, *probed, *stored, *outputs)

    def inside(row: int, at: int) -> bool:
        return bool(lows[row] <= keys[at] and (open_end or keys[at] <= highs[row]))

    found = collect(look, len(latest), room)
    assert sorted(found) == sorted(expected(latest, latest + window, tau, window, inside))


PREDICATES: list[tuple[Program, Callable[[float, float, float, float], bool]]] = [
    ((), lambda a, b, x, y: True),
    ((("row", 0), ("row", 2), ("<", 0)), lambda a, b, x, y: a < x),
    (
        (("row", 0), ("row", 2), ("*", 1e9), ("row", 1), ("row", 3), ("+", 1e9), (">=", 0)),
        lambda a, b, x, y: a * x >= b + y,
    ),
    ((("row", 3), ("row", 1), ("-", 1e9), ("abs", 0), ("number", 4.0), ("<=", 0)), lambda a, b, x, y: abs(y - b) <= 4),
    (
        (("row", 0), ("row", 2), ("=", 0), ("row", 1), ("row", 3), ("<>", 0), ("or", 0)),
        lambda a, b, x, y: a == x or b != y,
    ),
    ((("row", 0), ("neg", 0), ("row", 2), (">", 0), ("not", 0)), lambda a, b, x, y: not -a > x),
]


@pytest.mark.parametrize(("program", "true"), PREDICATES)
@given(
    st.lists(st.tuples(_SMALL, _SMALL, _SMALL), max_size=8),
    st.lists(st.tuples(_SMALL, _SMALL, _SMALL), max_size=20),
    st.sampled_from((0, 3, 100)),
    st.integers(1, 7),
    st.booleans(),
    st.data(),
)
def test_a_scan_finds_what_nested_loops_find(
    program: Program,
    true: Callable[[float, float, float, float], bool],
    probing: list[tuple[int, int, int]],
    stored: list[tuple[int, int, int]],
    window: int,
    room: int,
    sorted_already: bool,
    data: st.DataObject,
) -> None:
    if sorted_already:
        stored = sorted(stored, key=lambda row: row[2])
    left = np.array([row[:2] for row in probing], np.float64).reshape(-1, 2)
    latest = np.array([row[2] for row in probing], np.int64)
    tau = np.array([row[2] for row in stored], np.int64)
    right = np.array([row[:2] for row in stored], np.float64).reshape(-1, 2)
    valid = np.array([data.draw(st.integers(0, 3)) > 0 for _ in stored], np.uint8)
    order = np.argsort(tau, kind="stable").astype(np.int32)
    by_time = order[:0] if sorted_already else order
    plan = arranged(program, 2) if program else Arranged(np.empty((0, 3), np.int64), 1, (), ())
    both = [*left.T, *right[order].T]
    fixed = [computed(one, both, len(left)) for one in plan.fixed]
    columns = [computed(one, both, len(right)) for one in plan.columns]
    numbers = np.stack(fixed, axis=1) if fixed else np.empty((len(left), 0))
    in_order = np.stack(columns) if columns else np.empty((0, len(right)))

    def look(row: int, at: int, *outputs: np.ndarray) -> tuple[int, int, int]:
        rest = (latest, latest + window, NO_SETS, row, at, by_time, tau, NO_DEADLINE, NO_SETS, window)
        return probe_all(plan.codes, plan.depth, numbers, in_order, valid[order], *rest, *outputs)

    def passes(row: int, at: int) -> bool:
        return bool(valid[at] and true(*left[row], *right[at]))

    found = collect(look, len(latest), room)
    assert sorted(found) == sorted(expected(latest, latest + window, tau, window, passes))


def test_blocks_and_chunks_are_joined_without_a_gap() -> None:
    """More rows than a block has, in a number that nothing divides."""
    count = 2 * BLOCK + 77
    tau = np.arange(count, dtype=np.int64)
    values = np.random.default_rng(3).integers(-9, 10, count).astype(np.float64)
    plan = arranged((("row", 0), ("row", 1), ("<", 0)), 1)
    latest = np.array([count], np.int64)
    numbers, no_order = np.array([[5.0]]), np.empty(0, np.int32)

    def look(row: int, at: int, *outputs: np.ndarray) -> tuple[int, int, int]:
        rest = (latest, latest, NO_SETS, row, at, no_order, tau, NO_DEADLINE, NO_SETS, count)
        return probe_all(plan.codes, plan.depth, numbers, values.reshape(1, -1), NO_SETS, *rest, *outputs)

    assert [stored for _, stored, _, _ in collect(look, 1, 50)] == np.flatnonzero(values > 5).tolist()


def test_a_program_is_safe_only_if_no_value_can_leave_its_type() -> None:
    tiny = (("row", 0), ("row", 1), ("*", 127.0), ("number", 5.0), ("<", 0.0))
    assert is_safe(tiny, [-11, -11], [11, 11])
    assert not is_safe(tiny, [-12, -11], [11, 11])
    assert not is_safe(
        (("row", 0), ("row", 1), ("-", 127.0), ("abs", 0), ("number", 5.0), ("<", 0.0)), [-64, 0], [0, 64]
    )
