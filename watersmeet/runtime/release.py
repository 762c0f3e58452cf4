"""When results that wait become files of their queries; and a tick of its own for them, at a start or a stop."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from watersmeet import points
from watersmeet.home.manifest import Manifest, WaitingFile
from watersmeet.model import Query
from watersmeet.runtime.committer import Committer
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.tick.commit import only_released
from watersmeet.runtime.tick.orders import ReleaseOrder, raise_first
from watersmeet.runtime.tick.suspension import log_suspensions, resumed_names

TICKS = 4  # in a shorter delay than so many ticks take, to write results twice costs more than it saves
MANY_BYTES = 64 << 20  # of results that wait: they leave, however short they have waited


class Delay:
    """How long results wait. Those of a query whose files cannot be written wait beside, until it is resumed."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.takers: Callable[[], Collection[str]] = tuple  # queries whose results somebody gets by ticks
        self._since: float | None = None  # on the monotonic clock
        self._is_ended = False
        self._at_once: frozenset[str] | None = frozenset()
        self._committed: float | None = None  # when the last tick was
        self._between = 0.0  # seconds from the one before it

    @property
    def runs(self) -> bool:
        return self._since is not None

    def end(self) -> None:
        """What waits leaves with the next tick."""
        self._is_ended = True

    def is_over(self, waiting: Sequence[WaitingFile]) -> bool:
        if self._is_ended or self._since is None:
            return self._is_ended and bool(waiting)
        # Not what only suspended queries have left: it does not become less.
        size = sum(each.bytes for each in waiting if each.queries is None)
        return time.monotonic() - self._since >= self.seconds or size >= MANY_BYTES

    def leaves(self, waiting: Sequence[WaitingFile]) -> bool:
        """Whether what waits leaves with the tick that begins."""
        over, self._is_ended = self.is_over(waiting), False
        return over

    def at_once(self) -> frozenset[str] | None:
        """The queries whose results do not wait from the next tick on; None: all. Those of earlier ticks leave before
        them."""
        is_short = self._between * TICKS > self.seconds
        before, self._at_once = self._at_once, None if is_short else frozenset(self.takers())
        if before is not None and (self._at_once is None or self._at_once - before):
            self.end()
        return self._at_once

    def committed(self, left: bool, new: bool) -> None:
        """A tick is committed: whether results have left, and whether some have begun to wait."""
        now = time.monotonic()
        if self._committed is not None:
            self._between = now - self._committed
        self._committed = now
        if left:
            self._since = None
        if new and self._since is None:
            self._since = now


def release_all(
    before: Manifest,
    executor: Executor,
    committer: Committer,
    durable: bool,
    queries: Iterable[Query],
) -> tuple[Manifest, dict[str, str]]:
    """A tick in which all that waits becomes files, and nothing else happens. Returns its manifest, and the queries
    whose files cannot appear, with the reasons."""
    home = committer.home
    first = {query: before.queries.get(query, 0) for file in before.waiting for query in file.queries or ()}
    attempt = before.tag + secrets.token_hex(4)
    order = ReleaseOrder(str(home), before.tick + 1, attempt, before.waiting, durable, first)
    released = executor.submit(order).result()
    raise_first(released)
    points.reach("release.after")
    manifest, garbage = only_released(order, before, released, resumed_names(queries, before))
    committer.commit(manifest)
    log_suspensions(home, before, manifest)
    staged = [file for report in released for file in report.results]
    return manifest, committer.publish(manifest, staged, garbage, durable)
