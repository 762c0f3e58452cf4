"""The steps of probe trees while the trees grow."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.model import KeyPart
from watersmeet.optimize.joingraph import Subquery
from watersmeet.optimize.problem import Path
from watersmeet.plan.access import order_of
from watersmeet.plan.grouping import Group
from watersmeet.plan.materialize import Materialized
from watersmeet.plan.ruleset import FilterNeed, Key, LeafCheck, Lookup, Range, Step, Test
from watersmeet.store.derived import Block, is_exact


@dataclass
class StepNode:
    """A step under construction; the root of a tree stands for the arriving row."""

    store: Subquery
    name: str
    key: Key = ()
    sources: tuple[Lookup, ...] = ()
    sees: tuple[str, ...] = ()
    range: Range | None = None
    tests: tuple[Test, ...] = ()
    windows: set[int] = field(default_factory=set)
    asks: dict[str, Block] = field(default_factory=dict)  # by group
    emitted: list[tuple[Group, Path]] = field(default_factory=list)  # paths that end here, with the stores of positions
    kept: list[tuple[Materialized, Path]] = field(default_factory=list)
    children: dict[object, StepNode] = field(default_factory=dict)
    leaf: LeafCheck | None = None

    @property
    def groups(self) -> tuple[FilterNeed, ...]:
        return tuple(FilterNeed(group, block) for group, block in self.asks.items())

    def proves(self, part: KeyPart, lookup: Lookup) -> bool:
        """Whether the codes that it compares prove an equality by themselves."""
        return is_exact(self.key) and (self.key[0], self.sources[0]) == (part, lookup)

    @property
    def identity(self) -> tuple[object, ...]:
        return self.name, self.key, self.sources, self.sees, self.range, self.tests


def carried(steps: tuple[Step, ...], bound: int) -> tuple[Lookup, ...]:
    """The codes that must travel to these steps: their own sources, and what they carry on from above."""
    needed = {lookup: None for step in steps for lookup in (*step.looked_up, *step.carry) if lookup[0] < bound}
    return tuple(sorted(needed, key=order_of))
