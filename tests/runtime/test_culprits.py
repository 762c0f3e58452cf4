"""Which queries are at fault for a tick that fails without naming them."""

from __future__ import annotations

from random import Random

import pytest

from watersmeet.runtime.tick.culprits import culprits

NAMES = [f"q{at}" for at in range(40)]


@pytest.mark.parametrize("seed", range(30))
def test_they_are_found_by_few_tries(seed: int) -> None:
    random = Random(seed)
    names = NAMES[: random.randint(1, 40)]
    at_fault = set(random.sample(names, min(len(names), random.randint(1, 3))))
    tries = []

    def succeeds(without: frozenset[str]) -> bool:
        tries.append(without)
        return at_fault <= without

    assert culprits(names, succeeds) == at_fault
    assert len(tries) <= 2 + len(at_fault) * 7


def test_queries_that_fit_only_without_each_other() -> None:
    """One of them is enough."""
    found = culprits(NAMES, lambda without: bool({"q3", "q7"} & without))
    assert found in ({"q3"}, {"q7"})


@pytest.mark.parametrize("seed", range(30))
def test_tries_that_fail_by_chance(seed: int) -> None:
    """As where memory is short for another reason: some queries are blamed, and the search ends."""
    random, names = Random(seed), NAMES[: 1 + seed % 4]
    found = culprits(names, lambda without: len(without) == len(names) or random.random() < 0.1)
    assert found is None or found <= set(names)
    random.seed(seed)
    culprits(names, lambda without: random.random() < 0.5)


def test_no_query_is_at_fault() -> None:
    assert culprits(NAMES, lambda without: False) == set()
    assert culprits([], lambda without: False) == set()
    assert culprits(NAMES, lambda without: True) is None
