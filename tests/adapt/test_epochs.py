"""The state machine of epochs: what it asks for and when, whatever the optimizer and the users do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.adapt.epochs import Decide, Epochs, Instruction, StartSearch

EVENTS = st.lists(st.sampled_from(["tick", "tick", "tick", "answer", "queries"]), max_size=80)


def ticks(state: Epochs, count: int) -> tuple[Epochs, list[Instruction]]:
    told: list[Instruction] = []
    for _ in range(count):
        state, instructions = state.committed()
        told += instructions
    return state, told


def test_gather_then_ask_then_decide_an_epoch_later() -> None:
    state, told = ticks(Epochs(4), 4)
    assert told == [StartSearch(0)]
    state, told = ticks(state.with_answer(), 3)
    assert told == []
    state, told = ticks(state, 1)
    assert told == [Decide(0), StartSearch(1)]


def test_a_late_answer_is_decided_on_when_it_comes() -> None:
    state, _ = ticks(Epochs(3), 3)
    state, told = ticks(state, 7)
    assert told == [], "no tick waits for it, and it gets no other request meanwhile"
    state, told = ticks(state.with_answer(), 1)
    assert told == [Decide(0)]
    assert ticks(state, 1)[1] == [StartSearch(3)]


def test_an_answer_for_other_queries_is_not_decided_on() -> None:
    state, _ = ticks(Epochs(4), 4)
    state, told = ticks(state.with_other_queries(), 2)
    assert told == []
    state, told = ticks(state.with_answer(), 1)
    assert told == [StartSearch(0)], "another request at once, with what is known"
    assert not state.stale


@given(st.integers(1, 5), EVENTS)
def test_every_decision_follows_an_answer_and_never_comes_early(length: int, events: list[str]) -> None:
    state = Epochs(length)
    asked: int | None = None
    answered = stale = False
    for event in events:
        if event == "answer":
            if asked is None or answered:
                continue
            state, answered = state.with_answer(), True
        elif event == "queries":
            state, stale = state.with_other_queries(), stale or asked is not None
        else:
            state, told = state.committed()
            for instruction in told:
                if isinstance(instruction, Decide):
                    assert instruction.epoch == asked and answered and not stale
                    assert state.ticks >= (instruction.epoch + 2) * length, "active in e + 2 at the earliest"
                    asked, answered = None, False
                else:
                    assert asked is None or (answered and stale), "asked while the optimizer was at work"
                    assert (instruction.epoch + 1) * length <= state.ticks, "a request about an epoch that runs"
                    asked, answered, stale = instruction.epoch, False, False
            assert asked is not None or state.ticks < length or state.ticks % length, "an epoch ended in silence"
        state.validate()


def test_an_answer_that_nobody_asked_for_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        Epochs(3).with_answer()
