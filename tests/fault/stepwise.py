"""The tick loop without Spark, tick by tick, with ways to die: the files on disk are then as after a real kill."""

from __future__ import annotations

from pathlib import Path

from tests.support.answers import check_answers
from tests.support.cases import Case
from tests.support.deaths import Died, dying_at
from tests.support.in_process import InProcess


class Stepwise(InProcess):
    def __init__(self, home: Path, case: Case) -> None:
        self.done = 0
        super().__init__(home, case)

    def restart(self) -> None:
        super().restart()
        self.done = self.manifest.tick

    def run_until(self, until: int) -> None:
        for tick in range(self.done, until):
            self.tick(self.case.pieces(tick))
            self.done += 1

    def die_at(self, point: str) -> None:
        """Begin the next tick and die at a point of it."""
        assert self.loop is not None
        with dying_at(point):
            try:
                self.loop.run(self._batch(self.case.pieces(self.done), "0"))
            except Died:
                return
        raise AssertionError(f"{point} was not reached")

    def check_answers(self) -> None:
        check_answers(self.case, self.home)
