"""A tick computes windows of at most so many queries; all have their turn."""

from __future__ import annotations

from random import Random

import pytest

from watersmeet.windows.sql.turns import Turns

ALL = [f"q{at}" for at in range(7)]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("first", [1, 5, 1000])
def test_each_has_its_turn_after_all_others(most: int, first: int) -> None:
    turns = Turns()
    rounds = -(-len(ALL) // most)
    for tick in range(first, first + 5 * rounds, rounds):
        taken = [turns.take(ALL, most, tick + at, ALL) for at in range(rounds)]
        assert set().union(*taken) == set(ALL)
        assert all(len(each) == min(most, len(ALL)) for each in taken)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_starves_whoever_else_comes_and_goes(seed: int) -> None:
    random, turns = Random(seed), Turns()
    since: dict[str, int] = {}  # query -> how many ticks it has waited
    for tick in range(1, 300):
        # One that waits stays until it has had its turn.
        waiting = [query for query in ALL if query in since or query == "q3" or random.random() < 0.6]
        chosen = turns.take(waiting, 1, tick, ALL)
        assert chosen <= set(waiting) and len(chosen) == 1
        since = {query: since.get(query, 0) + 1 for query in waiting if query not in chosen}
        assert max(since.values(), default=0) < len(ALL)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_engine_that_restarts_with_every_tick_serves_all(most: int) -> None:
    taken = [Turns().take(ALL, most, tick, ALL) for tick in range(1, len(ALL) + 1)]
    assert set().union(*taken) == set(ALL)


def test_dropped_queries_are_forgotten() -> None:
    turns = Turns()
    turns.take(ALL, 7, 1, ALL)
    turns.take(ALL[:2], 1, 2, ALL[:2])
    assert turns._last.keys() == set(ALL[:2])
    assert turns.take([], 1, 3, []) == set()
