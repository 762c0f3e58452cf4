"""A job of Spark that is cancelled when one of its tasks takes too long for a block of rows, when the jobs of its query
take too long together, when the query is dropped, or when the engine stops.

A job may wait for others that have all slots, and that time does not count. For the limit of a block, which is short,
the tasks give signs in the home, because Spark does not tell soon which tasks run; what a whole job takes counts from
the moment at which Spark tells of its first task.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from watersmeet.errors import RunError
from watersmeet.home.signs import computing, dropped, engine_stops, stop_computing
from watersmeet.runtime.probe.pruning import Stopped

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
_LOOK = 0.2  # seconds between two looks at the signs


class JobTookTooLong(RunError):
    """A task took longer for a block of rows than it may, or the jobs of a query for a tick."""


class Dropped(RunError):
    """The query that a job is for was dropped some time ago."""


class Allowance:
    """What all jobs of a query in a tick may take together."""

    def __init__(self, home: Path, seconds: float = 0, query: str = "") -> None:
        """`seconds` are those in which its tasks run; 0: no limit."""
        self.home, self.seconds, self._query = home, seconds, query
        self._used = 0.0  # seconds of the jobs that have ended
        self._dropped: float | None = None  # since when it is known that the query was dropped

    def use(self, seconds: float) -> None:
        self._used += seconds

    def why_given_up(self, now: float, running: float = 0.0) -> RunError | None:
        """Why no job of the query may run any more, if so; `running` are the seconds of the one that runs."""
        if engine_stops(self.home):
            return Stopped("the engine stops, and does not wait for this tick")
        if self.seconds and self._used + running > self.seconds:
            return JobTookTooLong(
                f"its windows of a tick took Spark more than {self.seconds:g} seconds (option window_seconds)"
            )
        patience = dropped(self.home).get(self._query) if self._query else None
        if patience is not None:
            self._dropped = self._dropped or now
            if now - self._dropped >= patience:
                return Dropped("it was dropped")
        return None

    def check(self) -> None:
        """Raise the reason to begin no other job."""
        problem = self.why_given_up(time.monotonic())
        if problem is not None:
            raise problem


class LimitedJob:
    """If blocks have a limit, its tasks give the sign `home.signs.computes` for its name."""

    def __init__(self, context: SparkContext, home: Path, seconds: float, allowance: Allowance | None = None) -> None:
        """`seconds` are for a block of rows; 0: no limit."""
        self.name = f"watersmeet-{secrets.token_hex(8)}"
        self._context, self._home, self._seconds = context, home, seconds
        self._allowance = allowance or Allowance(home)
        self._begun: float | None = None  # when a task was first seen
        self._looked = time.monotonic()  # when none was seen
        self._ended = threading.Event()
        self._problem: RunError | None = None

    @property
    def is_given_up(self) -> bool:
        return self._problem is not None

    def run(self, job: Callable[[], T]) -> T:
        watch = threading.Thread(target=self._watch, name="watersmeet limited job", daemon=True)
        self._context.addJobTag(self.name)  # of this thread
        watch.start()
        try:
            return job()
        except Exception as problem:
            if self._problem is not None:
                raise self._problem from problem
            raise
        finally:
            self._ended.set()
            watch.join()
            self._allowance.use(time.monotonic() - (self._begun or self._looked))
            self._context.removeJobTag(self.name)
            stop_computing(self._home, self.name)

    def _watch(self) -> None:
        signs: dict[str, tuple[int, float]] = {}  # by task its last sign, and when it was first seen
        while not self._ended.wait(_LOOK):
            now = time.monotonic()
            found = computing(self._home, self.name)
            signs = {task: signs[task] if signs.get(task, (0,))[0] == at else (at, now) for task, at in found.items()}
            if self._allowance.seconds and self._begun is None:
                self._looked, self._begun = now, now if self._runs() else None
            if self._problem is None:
                silent = now - min((seen for _, seen in signs.values()), default=now)
                self._problem = self._why_given_up(now, silent)
            if self._problem is not None:  # each time: it may not have begun before
                with contextlib.suppress(Exception):  # of a Spark that has ended
                    self._context.cancelJobsWithTag(self.name)

    def _runs(self) -> bool:
        """Whether Spark knows of a task of this job."""
        with contextlib.suppress(Exception):  # of a Spark that has ended
            tracker = self._context.statusTracker()
            # PySpark's own tracker finds jobs by their group alone.
            for job in self._context._jsc.sc().statusTracker().getJobIdsForTag(self.name):
                found = tracker.getJobInfo(job)
                for stage in map(tracker.getStageInfo, found.stageIds if found else ()):
                    if stage and (stage.numActiveTasks or stage.numCompletedTasks):
                        return True
        return False

    def _why_given_up(self, now: float, silent: float) -> RunError | None:
        if self._seconds and silent > self._seconds:
            return JobTookTooLong(f"it took more than {self._seconds:g} seconds (option expression_seconds)")
        return self._allowance.why_given_up(now, now - self._begun if self._begun is not None else 0.0)
