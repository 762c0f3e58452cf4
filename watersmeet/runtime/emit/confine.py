"""What goes wrong for one query is confined to it: the query is suspended, and the task continues without it.

Not confined are damaged state and a full disk of the home: they concern every query, so the tick fails.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from watersmeet.errors import StateError, WatersmeetError
from watersmeet.runtime.probe.pruning import Stopped
from watersmeet.runtime.tick.failure import is_full

LONGEST_REASON = 300  # characters


class Confinement:
    """The queries for which a task has stopped working, and why; `suspended` are those that were so before."""

    def __init__(self, home: Path, suspended: Collection[str], reasons: dict[str, str]) -> None:
        self._home = home
        self._suspended = suspended
        self.reasons = reasons

    def __contains__(self, query: str) -> bool:
        return query in self.reasons or query in self._suspended

    def __len__(self) -> int:
        return len(self.reasons) + len(self._suspended)

    def suspend(self, query: str, reason: str) -> None:
        self.reasons.setdefault(query, reason)

    @contextlib.contextmanager
    def of(self, query: str, folder: Path) -> Iterator[None]:
        """What is raised inside belongs to a query that writes into a folder."""
        try:
            yield
        except (StateError, Stopped):
            raise
        except Exception as problem:
            if is_full(problem) and _same_disk(folder, self._home):
                raise
            self.suspend(query, reason_of(problem))


def reason_of(problem: BaseException) -> str:
    """An exception in one line."""
    if isinstance(problem, WatersmeetError):
        return f"{problem.problem}: {problem.detail}" if problem.detail else problem.problem
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename}" if problem.filename else problem.strerror
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:LONGEST_REASON]


def _same_disk(folder: Path, home: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(folder).st_dev == os.stat(home).st_dev
    return True
