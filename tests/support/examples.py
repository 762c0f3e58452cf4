"""How many random examples a test tries, and which ones.

| profile | who | examples |
|---|---|---|
| commit | `./run test` | a third of a test's number, the same ones on every machine and day |
| all | the tiers of `./run test-all` | all of them, from a seed of the day, which is printed |
| search | `HYPOTHESIS_PROFILE=search WATERSMEET_EXAMPLES=1000` | as many for every test, from a new seed |
| quick | work on a failure | as commit; the first failure as it was found, without shrinking |
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, Phase, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "commit")
DAY = int(os.environ.get("WATERSMEET_SEED", "0"))  # as tests/tiers.py sets it
USUAL = 100  # of a test that names no number
_SHARE = 3
_SEARCHED = int(os.environ.get("WATERSMEET_EXAMPLES", "2000"))


def examples(number: int) -> int:
    """The number of examples in this profile, for a test with `number` of them in all."""
    if PROFILE == "search":
        return _SEARCHED
    return number if PROFILE == "all" else -(-number // _SHARE)


def seeds(span: Sequence[int]) -> list[ParameterSet]:
    """Seeds of random cases that Hypothesis does not make: the same share of them, and new ones from the day's seed."""
    new = [number + 1_000_000 * DAY for number in span[::_SHARE]] if DAY else []
    chosen = [*span, *new] if PROFILE in ("all", "search") else span[::_SHARE]
    return [pytest.param(number, marks=pytest.mark.random) for number in chosen]


def load_profile() -> None:
    # No deadline and no health check: both are about time, which is no property of what is tested.
    base = settings(
        deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, max_examples=examples(USUAL)
    )
    settings.register_profile("commit", base, derandomize=True)
    settings.register_profile("all", base)
    settings.register_profile("search", base)
    settings.register_profile("quick", base, derandomize=True, phases=(Phase.explicit, Phase.generate))
    settings.load_profile(PROFILE)
