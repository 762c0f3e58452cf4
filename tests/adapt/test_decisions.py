"""When statistics are a reason to search for another plan."""

from __future__ import annotations

import pytest

from watersmeet.adapt.decisions import is_worth_a_search
from watersmeet.optimize.statistics import Statistics


@pytest.mark.parametrize(
    ("times", "searched", "worked", "expected"),
    [
        (1.1, 0.1, 1000.0, False),  # nothing has changed
        (1.5, 0.1, 1000.0, True),
        (1.5, 1.0, 10.0, False),  # the search would cost a tenth of the ticks
        (4.0, 1.0, 10.0, True),  # but the plan may be a wrong one now
        (0.2, 1.0, 10.0, True),
        (1.5, 0.0, 0.0, True),  # nothing was searched for yet
    ],
)
def test_a_search_costs_little_of_the_ticks_or_the_data_has_changed(
    times: float, searched: float, worked: float, expected: bool
) -> None:
    before, after = Statistics(sizes={"r": 1000.0, "s": 50.0}), Statistics(sizes={"r": 1000.0 * times, "s": 50.0})
    assert is_worth_a_search(before, after, searched, worked) == expected
