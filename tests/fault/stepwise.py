"""The driver without Spark, tick by tick, with ways to die: the files on disk are then as after a real kill."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from tests.oracle import inprocess
from tests.oracle.answers import oracle_answers, stored_answers
from tests.oracle.cases import Case
from tests.oracle.inprocess import InProcess
from watersmeet.runtime.orders import ProbeOrder, ProbeReport
from watersmeet.runtime.spark import raise_first
from watersmeet.store.manifest import Manifest


class Died(Exception):
    pass


class Stepwise(InProcess):
    def __init__(self, home: Path, case: Case) -> None:
        self.done = 0
        super().__init__(home, case)

    def restart(self) -> None:
        super().restart()
        self.done = self.manifest.tick

    def run(self, until: int) -> None:
        for tick in range(self.done, until):
            self.tick({stream.name: stream.piece(tick) for stream in self.case.streams})
            self.done += 1

    def die_at(self, function: str) -> Manifest:
        """Begin the next tick and die when the driver calls `function`; what it would have had as its manifest."""
        seen = self.manifest
        with patch.object(inprocess, function, side_effect=Died):
            try:
                self.run(self.done + 1)
            except Died:
                reached, self.manifest = self.manifest, seen
                return reached
        raise AssertionError(f"{function} was not called")

    def check_answers(self) -> None:
        for query, expected in oracle_answers(self.case).items():
            assert stored_answers(self.home / "results" / query) == expected, query

    def _probe(self, order: ProbeOrder) -> list[ProbeReport]:
        reports = super()._probe(order)
        raise_first(reports)  # as the driver on Spark does
        return reports
