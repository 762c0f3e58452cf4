"""The failure that has ended the ticks of an engine, and whether it was raised to the user."""

from __future__ import annotations

from pathlib import Path

from watersmeet.errors import WatersmeetError
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.failure import explain_failure


class Failure:
    """The first failure of an engine since its start."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.known: WatersmeetError | None = None
        self._told = False
        self._stops = False

    def forget(self) -> None:
        """Forget the failure, because the engine starts again."""
        self.known, self._told, self._stops = None, False, False

    def stops(self) -> None:
        """Note that the user stops the engine: that a tick is given up is no failure any more."""
        self._stops = True

    def found(self, problem: BaseException | None) -> None:
        """Record a failure. The first one counts: others follow from it."""
        if self._stops and isinstance(problem, Stopped):
            return
        if problem is not None and self.known is None:
            self.known = explain_failure(problem, self._home)

    def tell(self) -> None:
        """Raise the failure, once: a user who knows it reads what was committed before."""
        if self.known is not None and not self._told:
            self._told = True
            raise self.known
