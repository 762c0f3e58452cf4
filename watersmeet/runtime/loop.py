"""The tick loop: begin → gather → probe → commit, for one batch after the other. The only place where ticks run.

Feeds hand over batches, an executor executes orders, observers are notified, and the plan can be replaced at any
moment. While a tick is probed, the next one may be gathered already: its watermarks are known by then. Commits
stay in order: a tick is not probed before the one before it is committed. A tick of few rows is one order.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from watersmeet import points
from watersmeet.errors import RunError, WatersmeetError
from watersmeet.home.manifest import Manifest
from watersmeet.home.outbox import LaneName, without
from watersmeet.home.signs import Signs
from watersmeet.home.tick_log import TickTimes, log_tick
from watersmeet.io.positions import ahead, mixed, place_of, with_positions
from watersmeet.runtime.committer import Committer
from watersmeet.runtime.emit.confine import reason_of
from watersmeet.runtime.exec.batches import Batch, Observer, SmallerBatch
from watersmeet.runtime.exec.executor import TRIES, Executor, Rank
from watersmeet.runtime.execution import Begun, Execution
from watersmeet.runtime.release import Delay, release_all
from watersmeet.runtime.tick.active_plan import ActivePlan
from watersmeet.runtime.tick.commit import committed
from watersmeet.runtime.tick.culprits import culprits
from watersmeet.runtime.tick.failure import explain_failure, was_cut_off
from watersmeet.runtime.tick.orders import GatherReport
from watersmeet.runtime.tick.overload import Overload
from watersmeet.runtime.tick.suspension import CONFINED, Confined, at_fault, is_new, log_suspensions, may_pass
from watersmeet.runtime.tick.tick import Tick, spoke
from watersmeet.runtime.tick.whole_tick import TickReport
from watersmeet.windows.life import WindowLife
from watersmeet.windows.silence import Silence

FOREVER = float("inf")  # seconds
CAREFUL_TICKS = 50  # after one for which there was too little memory
_CUT_OFF_AT_MOST = 3  # times in a tick


class TickLoop:
    def __init__(self, home: Path, manifest: Manifest, plan: ActivePlan, executor: Executor, wait: float = 30) -> None:
        """`wait` is how many seconds a tick continues with a query that was dropped."""
        self.home = home
        self._signs = Signs(home, wait)
        self.manifest = manifest if manifest.tag else replace(manifest, tag=secrets.token_hex(4))
        self.plan = plan
        self.executor = executor
        self.observers: list[Observer] = []
        self.recent: list[TickTimes] = []
        self.failure: WatersmeetError | None = None
        # Ticks of different feeds take turns: the tick number is the arrival order. The next turn belongs to the
        # batch that was gathered ahead.
        self._turn = threading.Condition()
        self._busy = False
        # Held for moments only, so that a change of the plan need not wait for the running tick to end.
        self._handover = threading.Lock()
        self._finished = False
        self._begun = manifest.tick
        self._committer = Committer(home, manifest)
        self._ahead: Begun | None = None
        self.execution = Execution(executor, self._tell)
        self._silence = Silence()
        self._held: dict[str, int] = {}  # bytes that workers keep for windows, those that told last at the end
        self._careful_until = 0  # ticks before it take little memory
        self._flush = False  # whether the next tick closes all windows and decides all absences
        # Whether the last tick has left due windows to the next ones, which come without rows if they have to.
        self._left = bool(WindowLife(plan.windowed, plan.streams, plan.rules, manifest).due(manifest.newest, ()))
        self._waiting_since: float | None = None  # since when a change waits for a tick
        self.delay = Delay()
        self._disabled: frozenset[str] = frozenset()  # registered predicates that are disabled
        self._suspending: dict[str, str] = {}  # queries that the next tick suspends, and why
        self.check_lock: Callable[[], None] = lambda: None  # raises if another process may use the home
        self.delivered: Callable[[], Mapping[LaneName, int]] = dict  # what targets have of the outbox
        self.replan: Callable[[Collection[str]], None] | None = None  # adopts a plan without these queries
        if manifest.buckets and any(query.backfill and is_new(query, manifest) for query in plan.queries):
            self._waiting_since = time.monotonic()

    # The plan ------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        """Whether a tick runs."""
        return self._busy

    @property
    def next_tick(self) -> int:
        """The number of the next tick to begin."""
        with self._handover:
            return self._begun + 1

    def adopt(self, plan: ActivePlan, record: Callable[[int], None] = lambda tick: None) -> int:
        """Follow another plan from the next tick that begins; returns its number, which `record` gets before that."""
        with self._handover:
            record(self._begun + 1)
            self._signs.replaced(*({q.name for q in (*p.queries, *p.suspended)} for p in (self.plan, plan)))
            self.plan = plan
            self.delay.end()  # of a query that is gone, or that is resumed
            self._waiting_since = time.monotonic()
            self._disable(self._disabled)
            return self._begun + 1

    def _disable(self, predicates: frozenset[str]) -> None:
        """A predicate stays disabled while some query calls it."""
        self._disabled = predicates & self.plan.rules.registered() if predicates else predicates

    def suspend(self, query: str, reason: str) -> None:
        """Let the next tick suspend a query."""
        with self._handover:
            self._suspending.setdefault(query, reason)
            self._waiting_since = self._waiting_since or time.monotonic()

    # Ticks ---------------------------------------------------------------------------------------

    def run(self, batch: Batch, following: Callable[[], Batch | None] = lambda: None) -> None:
        """One tick for a batch. `following` may give the batch that this feed will bring next, if there is one."""
        with self._taking_turn(batch):
            if self._finished:  # an error, or Spark would write down that the batch is done
                raise RunError("the engine has stopped", hint="start it again: it resumes with this batch")
            if self.failure is not None:
                raise self.failure
            last = self.manifest.batches.get(batch.group, -1)
            if last >= batch.number:
                return  # committed before a crash that came before Spark wrote that down
            if batch.number > last + 1:
                self.failure = mixed(place_of(self.home, batch.group), ahead(batch.number, last))
                raise self.failure
            self._try(lambda: self._run_tick(batch, following))
            points.reach("tick.end")

    def settle(self, idle: float, until: float = FOREVER) -> None:
        """Run a tick without rows where a change has waited `idle` seconds for a tick, because no data comes, or where
        windows are left. With `idle` 0, run such ticks until nothing waits, or until the monotonic time `until`."""
        if self._waiting_since is None and self._silence.moves(self.plan, self.manifest):
            self._waiting_since = time.monotonic()
        since = self._waiting_since
        waits = self._left or (since is not None and time.monotonic() - since >= idle)
        if not waits and not (self.delay.is_over(self.manifest.waiting) if idle else self.delay.runs):
            return
        if idle and (self._busy or self._ahead is not None):
            return  # a tick runs, or is about to
        with self._taking_turn(None):
            while self.waits and self.failure is None and not self._finished:
                if not idle:
                    self.delay.end()
                self._try(lambda: self._run_tick(None, lambda: None))  # while it runs, another change may come
                if idle or time.monotonic() >= until:
                    break

    @property
    def waits(self) -> bool:
        """Whether there is something to do for a tick without rows."""
        return self._waiting_since is not None or self._left or self.delay.runs

    def flush(self) -> None:
        """Run ticks that close all windows and decide all absences, though rows may still come for them."""
        if self.plan.windowed or any(query.join and query.join.leaf for query in self.plan.queries):
            self._flush, self._waiting_since = True, time.monotonic()
            self.settle(0)

    def finish(self, seconds: float | None = None) -> None:
        """Wait for the running tick to end, or give it up after `seconds`; the next start takes what was not done."""
        with self._turn:
            self._finished = True
            self._turn.notify_all()
            if seconds is not None and not self._turn.wait_for(lambda: not self._busy, seconds):
                self._signs.stop()
        with self._taking_turn(None):
            self._clear()
            if self.failure is None and self.delay.runs:
                with contextlib.suppress(Exception):  # otherwise the next start does it
                    self._release()
            self._committer.close()
            self.execution.windows.close()

    @contextlib.contextmanager
    def _taking_turn(self, batch: Batch | None) -> Iterator[None]:
        with self._turn:
            self._turn.wait_for(lambda: not self._busy and self._may_run(batch))
            self._busy = True
        try:
            yield
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def _may_run(self, batch: Batch | None) -> bool:
        if self._finished or self.failure is not None:
            return True  # to be told so
        return self._ahead is None or self._ahead.batch is batch

    def _try(self, work: Callable[[], None]) -> None:
        number = self.manifest.tick + 1
        try:
            work()
        except Exception as problem:
            self.failure = explain_failure(problem, self.home, number)
            raise self.failure from problem

    def _run_tick(self, batch: Batch | None, following: Callable[[], Batch | None]) -> None:
        begun = self._begin(batch)
        points.reach("positions.before")
        self.check_lock()
        if batch is not None:
            batch.begin()
        points.reach("tick.begin")
        for tries in itertools.count(1):
            try:
                return self._execute(begun, following)
            except CONFINED as problem:
                if may_pass(problem, tries):
                    self._careful_until = begun.tick.number + CAREFUL_TICKS
                elif not self._is_without_fault(problem, begun, tries):
                    raise
            except SmallerBatch:
                pass
            except Exception as problem:
                if tries > _CUT_OFF_AT_MOST or not was_cut_off(problem, self.home, begun.tick.number):
                    raise
            begun, following = self._anew(begun), lambda: None

    def _is_without_fault(self, problem: Confined, begun: Begun, tries: int) -> bool:
        """Suspend the queries at fault; whether the tick is to be repeated. Where a failure names none, the tick is
        tried without some."""
        found: set[str] | None = at_fault(problem, begun.tick.computed)
        if not found and isinstance(problem, Overload) and self.replan is not None:
            answered = {query.name for query in begun.tick.queries} - begun.tick.unanswered()
            found = culprits(sorted(answered), lambda without: self._succeeds(begun, without))
            if found is None:
                return tries <= TRIES
        return self._suspend_those_at_fault(problem, found or set())

    def _anew(self, failed: Begun) -> Begun:
        """The tick again. What was to leave with it, or with the one gathered ahead by the same plan, leaves now."""
        ahead, self._ahead = self._ahead, None
        if any(begun is not None and begun.tick.release for begun in (failed, ahead)):
            self.delay.end()
        return self._new(failed.batch, self.manifest)

    def _succeeds(self, failed: Begun, without: frozenset[str]) -> bool:
        """Whether a tick can be made without some queries; nothing of it is committed."""
        begun = self._anew(failed)
        if begun.tick.release:
            self.delay.end()
        begun.tick = replace(begun.tick, without=without, careful=True, release=False)
        try:
            self.execution.run(begun, lambda tick, gathered: None)
        except (*CONFINED, SmallerBatch):
            return False
        return True

    def _suspend_those_at_fault(self, problem: Confined, found: set[str]) -> bool:
        present = found & {query.name for query in self.plan.queries}  # one may have been dropped meanwhile
        if not found or present & self._suspending.keys() or self.replan is None:
            return False
        for query in present:
            self.suspend(query, reason_of(problem))
        self.replan(present)
        return True

    def _execute(self, begun: Begun, following: Callable[[], Batch | None]) -> None:
        tick, reports = self.execution.run(begun, lambda tick, gathered: self._gather_ahead(following, tick, gathered))
        with self._handover:
            self._disable(self._disabled.union(*(report.disabled for report in reports.probed)))
        began = time.perf_counter()
        self._commit(tick, reports)
        seconds = time.perf_counter() - began
        self._log(reports.times(self.manifest.tick, seconds, self._held_by_workers(reports.held)))

    def _begin(self, batch: Batch | None) -> Begun:
        """The tick that was gathered ahead, or a new one."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return self._new(batch, self.manifest)
        ahead.tick = replace(
            ahead.tick,
            before=self.manifest,
            disabled=self._disabled,
            suspending=dict(self._suspending),
            at_once=self.delay.at_once(),
            release=self.delay.leaves(self.manifest.waiting) or ahead.tick.release,
        )
        return ahead

    def _new(self, batch: Batch | None, before: Manifest) -> Begun:
        with self._handover:
            plan, disabled, suspending = self.plan, self._disabled, dict(self._suspending)
            self._begun = before.tick + 1
            self._waiting_since = None
        self.executor.use_plan(plan)
        group, number = (batch.group, batch.number) if batch is not None else ("", 0)
        attempt, now = before.tag + secrets.token_hex(4), time.time_ns() // 1000
        tick = Tick(
            str(self.home),
            group,
            number,
            attempt,
            rules=plan.rules,
            streams=plan.streams,
            queries=plan.queries,
            before=before,
            disabled=disabled,
            now=now,
            suspended=plan.suspended,
            suspending=suspending,
            silent=self._silence.silent(plan.streams) if plan.windowed else frozenset(),
            flush=self._flush,
            careful=before.tick < self._careful_until,
            at_once=self.delay.at_once(),
            release=self.delay.leaves(self.manifest.waiting),
        )
        return Begun(batch, tick)

    def _gather_ahead(
        self, following: Callable[[], Batch | None], tick: Tick, gathered: Sequence[GatherReport]
    ) -> None:
        """Begin the tick of the next batch, if there is one, beside the tick that is gathered."""
        batch = following()
        if batch is not None:
            begun = self._new(batch, tick.foreseen(gathered))
            begun.gathering = batch.gather(begun.tick.begin(), self.executor, Rank.AHEAD)
            self._ahead = begun

    def _tell(self, gathered: Sequence[GatherReport]) -> None:
        self._silence.heard(spoke(gathered))
        for observer in self.observers:
            observer.gathered(gathered)

    # Commit --------------------------------------------------------------------------------------

    def _commit(self, tick: Tick, reports: TickReport) -> None:
        merged = reports.merged + self.execution.merges.done(self.manifest)
        points.reach("probe.after")
        manifest, garbage = committed(tick, reports.gathered, reports.probed, merged, reports.released)
        outbox, posted = without(manifest.outbox, self.delivered())
        with self._handover:  # no line is being written
            manifest = self._committer.sealed(replace(manifest, outbox=outbox))
        manifest = with_positions(self.home, manifest, tick.group)
        garbage += posted
        points.reach("commit.before", (garbage, {bucket.file for merge in merged for bucket in merge.job.inputs}))
        self.check_lock()
        self._committer.commit(manifest)
        log_suspensions(self.home, self.manifest, manifest)
        self.manifest = manifest
        self._left = reports.leaves_windows or tick.windows.leaves_due(manifest.newest, spoke(reports.gathered))
        self._flush = self._flush and (self._left or not tick.flush)
        self.delay.committed(tick.release, any(report.waiting for report in reports.probed))
        with self._handover:
            self._suspending = {n: self._suspending[n] for n in self._suspending.keys() - tick.suspending.keys()}
        self._signs.committed([query.name for query in tick.queries])
        lost = self._committer.publish(manifest, reports.staged, garbage, tick.rules.durable)
        for query, reason in lost.items():
            self.suspend(query, reason)
        for observer in self.observers:
            observer.committed(manifest)

    def _held_by_workers(self, told: dict[str, int]) -> int:
        """The memory that workers keep for windows. Those that have ended tell nothing, and others take their place."""
        self._held = {name: size for name, size in self._held.items() if name not in told} | told
        for name in list(self._held)[: -self.executor.parallelism if self.plan.windowed else None]:
            del self._held[name]
        return sum(self._held.values())

    def _release(self) -> None:
        """At a stop: what waits becomes files, in a tick of its own."""
        self.check_lock()
        plan, known = self.plan, (*self.plan.queries, *self.plan.suspended)
        durable = plan.rules.durable
        self.manifest, _ = release_all(self.manifest, self.executor, self._committer, durable, known)
        for observer in self.observers:
            observer.committed(self.manifest)

    def _log(self, times: TickTimes) -> None:
        self.recent = [*self.recent[-999:], times]
        log_tick(self.home, times)

    def _clear(self) -> None:
        """Delete the files of what was begun and will not be committed, if nothing is wrong with the tasks."""
        ahead, self._ahead = self._ahead, None
        if self.failure is not None:
            return  # the next start does it
        with contextlib.suppress(Exception):  # what has failed by now, the next start meets again
            gathered = ahead.gathering.result() if ahead is not None and ahead.gathering is not None else []
            merged = [report.merged for report in self.execution.merges.given_up()]
            buckets = [bucket for report in gathered for bucket in report.buckets]
            unused = [bucket.file for bucket in (*buckets, *merged) if bucket is not None]
            for name in (*unused, *(file.staged for report in gathered for file in report.rejected)):
                (self.home / name).unlink(missing_ok=True)  # those that are staged have absolute names
