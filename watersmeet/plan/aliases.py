"""Conversion between joins as written (aliases) and as the optimizer sees them (relations)."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model import Alias
from watersmeet.optimize.joingraph import relations_of
from watersmeet.plan.parts import JoinPart
from watersmeet.plan.ruleset import UNBOUNDED


class Aliases:
    def __init__(self, parts: Sequence[JoinPart]) -> None:
        self.parts = {part.name: part for part in parts}
        self.graphs = {part.name: part.graph for part in parts}
        self._by_relation = {
            part.name: {relation: part.join.by_name[alias] for alias, relation in relations_of(part.join).items()}
            for part in parts
        }
        for part in parts:
            if part.leaf is not None and part.leaf_alias is not None:
                self._by_relation[part.name][part.leaf.relation] = part.leaf_alias

    def alias(self, part: JoinPart, relation: str) -> Alias:
        return self._by_relation[part.name][relation]

    def window(self, part: JoinPart, relation: str) -> int:
        window = self.alias(part, relation).window
        return UNBOUNDED if window is None else min(window, UNBOUNDED)
