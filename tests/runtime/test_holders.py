"""Which resident takes which task: what one keeps for the windows of a tick is not read by another one too."""

from __future__ import annotations

from collections import deque

import pytest

from watersmeet.runtime.exec.executor import Rank
from watersmeet.runtime.exec.resident_pool import WINDOWS, Residents, _Order, _Task


@pytest.fixture
def pool() -> Residents:
    """Residents 1 and 2, both free, without Spark."""
    made = object.__new__(Residents)
    made._waiting = {rank: deque() for rank in Rank}
    made._holders, made._free, made._beside = {}, {1, 2}, None
    return made


def asked(pool: Residents, tasks: int = 1, rank: Rank = Rank.TICK, key: str = "") -> None:
    order = _Order(b"", tasks, rank, key)
    pool._waiting[rank].extend(_Task(order, number) for number in range(tasks))


def number(pool: Residents, resident: int, rank: Rank = Rank.TICK) -> int | None:
    task = pool._next(rank, resident)
    return None if task is None else task.number


def test_windows_stay_with_a_resident(pool: Residents) -> None:
    asked(pool, key=WINDOWS)
    assert number(pool, 1) == 0
    for _ in range(3):
        asked(pool, key=WINDOWS)
        assert number(pool, 2) is None
        assert number(pool, 1) == 0


def test_each_task_of_an_order_has_a_holder(pool: Residents) -> None:
    asked(pool, 2, key=WINDOWS)
    assert (number(pool, 1), number(pool, 2)) == (0, 1)
    asked(pool, 2, key=WINDOWS)
    assert (number(pool, 2), number(pool, 1)) == (1, 0)
    assert number(pool, 1) is None


def test_who_holds_windows_leaves_the_next_tick_to_another_that_is_free(pool: Residents) -> None:
    asked(pool, key=WINDOWS)
    assert number(pool, 1) == 0
    asked(pool, rank=Rank.AHEAD)
    assert number(pool, 1, Rank.AHEAD) is None
    assert number(pool, 2, Rank.AHEAD) == 0
    asked(pool, rank=Rank.AHEAD)
    pool._free = {1}
    assert number(pool, 1, Rank.AHEAD) == 0


def test_a_merge_keeps_nobody_from_what_it_holds(pool: Residents) -> None:
    asked(pool, key=WINDOWS)
    assert number(pool, 1) == 0
    pool._beside = 1
    asked(pool)
    asked(pool, key=WINDOWS)
    assert number(pool, 1) == 0, "it holds the windows"
    assert number(pool, 1) is None, "and leaves all else to the other one"
    assert number(pool, 2) == 0
