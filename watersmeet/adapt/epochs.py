"""Epochs, without any I/O: ticks and replies go in, instructions come out.

    epoch        e               e + 1              e + 2
    ticks    ────────────────┬──────────────────┬──────────────
             measure         │ optimizer works  │ new plan active
                        StartSearch           Decide

After the last tick of epoch e the optimizer gets a request. Its reply is decided on after the last tick of e + 1, or
after the tick in which it arrives if that is later. It has at most one request at a time. When queries change, the
pending request is of no use: another one follows as soon as the optimizer is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class StartSearch:
    """Send the measurements of the epoch to the optimizer."""

    epoch: int


@dataclass(frozen=True)
class Decide:
    """Activate the proposed plan if it is worth it."""

    epoch: int  # that the answer is about


Instruction = StartSearch | Decide


@dataclass(frozen=True)
class Epochs:
    length: int  # ticks of an epoch
    ticks: int = 0  # committed in all
    asked: int | None = None  # the epoch that the optimizer works on, or has answered for
    answered: bool = False
    stale: bool = False  # the queries are others than those asked about

    @property
    def epoch(self) -> int:
        """The epoch that the next tick belongs to; the first is 0."""
        return self.ticks // self.length

    def committed(self) -> tuple[Epochs, tuple[Instruction, ...]]:
        after = replace(self, ticks=self.ticks + 1)
        ended = after.ticks % self.length == 0
        told: tuple[Instruction, ...] = ()
        again = after.answered and after.stale
        if after.asked is not None and after.answered and (again or after.epoch >= after.asked + 2):
            told = () if again else (Decide(after.asked),)
            after = replace(after, asked=None, answered=False, stale=False)
        if after.asked is None and (ended or again):
            after = replace(after, asked=after.epoch - 1)
            told = (*told, StartSearch(after.epoch - 1))
        after.validate()
        return after, told

    def with_answer(self) -> Epochs:
        """The state after the optimizer has replied, or its process has ended."""
        assert self.asked is not None and not self.answered
        return replace(self, answered=True)

    def with_other_queries(self) -> Epochs:
        return replace(self, stale=True) if self.asked is not None else self

    def validate(self) -> None:
        assert self.asked is None or 0 <= self.asked < max(1, self.epoch), "a request about an epoch that has not ended"
        assert self.asked is not None or not (self.answered or self.stale)
