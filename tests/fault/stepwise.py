"""The tick loop without Spark, tick by tick, with ways to die: the files on disk are then as after a real kill."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.answers import oracle_answers, stored_answers
from tests.oracle.cases import Case
from tests.oracle.inprocess import Died, InProcess, dying_at


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

    def die_at(self, point: str) -> None:
        """Begin the next tick and die at a point of it."""
        assert self.loop is not None
        pieces = {stream.name: stream.piece(self.done) for stream in self.case.streams}
        with dying_at(point):
            try:
                self.loop.run(self._batch(pieces, "0"))
            except Died:
                return
        raise AssertionError(f"{point} was not reached")

    def check_answers(self) -> None:
        for query, expected in oracle_answers(self.case).items():
            assert stored_answers(self.home / "results" / query) == expected, query
