"""The three kills that tell most, on one home, cheap enough for every run; `test_kills.py` has the rest."""

from __future__ import annotations

from collections.abc import Callable

from tests.fault.killing import Victim, check_results, check_state, clean_start


def test_three_kills_lose_and_double_nothing(victim: Callable[..., Victim]) -> None:
    home = victim(ticks=8)
    # A task dies with a result file half written and is tried again; then the engine, between two renames of a tick
    # that is committed.
    home.killed_at("results.write:2", "publish.between:4")
    home.finish("merge.write:1")
    check_results(home)
    clean_start(home)
    check_state(home)
