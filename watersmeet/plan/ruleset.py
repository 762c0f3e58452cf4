"""The Ruleset: the plan as data, which every task of a tick obeys.

A partial result has *positions* 0, 1, …: position 0 is the row that just arrived, each step adds one. A step is
shared by all queries below it, so it works with the widest of their windows and lets a row pass that any of
their filters wants; where that is more than a query asked for, its `Emit` carries the query's own windows and
filters, to be checked before the result leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model import Column, KeyPart, Output, Sink

UNBOUNDED = 1 << 61  # longer than the range of event times, and still safe to add to one

Key = tuple[KeyPart, ...]
Lookup = tuple[int, KeyPart]  # the key part of the row at a position


@dataclass(frozen=True)
class Emit:
    """A complete result of a query."""

    query: str
    members: tuple[int, ...]  # for each alias of the query, its position
    windows: tuple[int, ...] | None  # own windows by alias, where the shared steps used wider ones
    filters: tuple[str | None, ...]  # own filter by alias, where the shared steps let more pass
    verify: tuple[tuple[Lookup, Lookup], ...]  # equalities whose codes do not prove them


@dataclass(frozen=True)
class Step:
    """Probe one store with the partial results that reach this step."""

    id: int
    store: str
    key: Key
    sources: tuple[Lookup, ...]  # where the value for each part of the key comes from
    sees_current: bool  # whether rows of the same tick are probed: True for aliases before the start
    window: int
    filters: tuple[str, ...]  # a row passes that satisfies one of them; () lets every row pass
    carry: tuple[Lookup, ...]  # codes that steps below need
    emits: tuple[Emit, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Start:
    """What happens to the rows of a stream that arrive in a tick."""

    stream: str
    window: int
    filters: tuple[str, ...]
    carry: tuple[Lookup, ...]
    emits: tuple[Emit, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class StoreRule:
    """How the rows of a stream are kept."""

    stream: str
    columns: tuple[Column, ...]
    time: str
    keys: tuple[Key, ...]
    filters: tuple[str, ...]
    layout: KeyPart | None  # the attribute that decides a row's place; None where the store is whole


@dataclass(frozen=True)
class ResultRule:
    query: str
    aliases: tuple[tuple[str, str], ...]  # (alias, stream)
    outputs: tuple[Output, ...]
    sink: Sink


@dataclass(frozen=True)
class Ruleset:
    version: str
    partitions: int
    stores: tuple[StoreRule, ...]
    starts: tuple[Start, ...]
    results: tuple[ResultRule, ...]

    def store(self, stream: str) -> StoreRule:
        return next(rule for rule in self.stores if rule.stream == stream)

    def layout_text(self, stream: str) -> str:
        """How rows of the stream are placed, as buckets remember it; "" where the store is whole."""
        layout = self.store(stream).layout
        return f"{layout.expression} % {self.partitions}" if layout else ""

    def all_steps(self) -> list[Step]:
        """Every step, parents before children."""
        found: list[Step] = []
        frontier = [step for start in self.starts for step in start.steps]
        while frontier:
            step = frontier.pop(0)
            found.append(step)
            frontier.extend(step.steps)
        return found

    def depth(self) -> int:
        """The longest path of steps: the number of stages of a tick with several places."""

        def below(steps: tuple[Step, ...]) -> int:
            return max((1 + below(step.steps) for step in steps), default=0)

        return max((below(start.steps) for start in self.starts), default=0)

    def validate(self) -> None:
        """What a task may rely on."""
        stores = {rule.stream: rule for rule in self.stores}
        streams = [start.stream for start in self.starts]
        assert len(set(streams)) == len(streams), "two starts for one stream"
        ids = [step.id for step in self.all_steps()]
        assert len(set(ids)) == len(ids), "two steps with one id"

        def check(steps: tuple[Step, ...], bound: int, carried: set[Lookup]) -> None:
            for step in steps:
                assert step.key in stores[step.store].keys, f"no index for step {step.id}"
                assert len(step.key) == len(step.sources)
                for source in step.sources:
                    assert source[0] < bound and source in carried, f"step {step.id} needs {source}"
                for emit in step.emits:
                    assert sorted(emit.members) == list(range(bound + 1)), f"{emit.query} does not use every row"
                kept = set(step.carry)
                assert all(position <= bound for position, _ in kept)
                check(step.steps, bound + 1, kept)

        for start in self.starts:
            check(start.steps, 1, set(start.carry))
